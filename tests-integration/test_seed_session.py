"""The session of the seeds stays in step with every strategy.

Its methods are those of the documents. It books one entry per turn, follows a collection by the
removal list, and books a summary by the ``summary_tokens`` of the result.
"""

from collections.abc import Callable
from typing import Any

import pytest
from seed_documents import Seeds, run

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCResult,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    ToolResult,
    count_tokens,
    load_gc_plugin,
)

CONVERSATION = InstructionSource.CONVERSATION
WINDOW = 3_000
TURNS = 80
STRATEGIES = {
    "gc_truncate": {},
    "gc_summarize": {"summarizer": lambda text: f"In short: {text[:200]}"},
    "gc_hybrid": {"summarizer": lambda text: f"In short: {text[:200]}"},
    "gc_budget": {},
    "gc_marksweep": {},
}  # fmt: skip


class SeedSession:
    """A session whose ``_execute_gc`` and ``get_context_usage`` are those of the documents."""

    _execute_gc: Callable[..., GCResult | None]
    get_context_usage: Callable[..., Any]

    def __init__(self, strategy: str) -> None:
        self._gc_plugin = load_gc_plugin(strategy, STRATEGIES[strategy])
        self._gc_config = GCConfig()
        self._history: list[Message] = []
        self._instruction_budget = InstructionBudget.create_default(context_limit=WINDOW)
        self._turns = self._summaries = 0

    def _emit_instruction_budget_update(self) -> None:
        """Does nothing: the test has no displays."""

    def add_turn(self, *messages: Message) -> GCResult | None:
        """Adds a turn, books it, and collects if that is due, as the documents do."""
        self._history = [*self._history, *messages]
        self._instruction_budget.add_child(
            CONVERSATION,
            f"turn_{self._turns}",
            count_tokens(messages),
            GCPolicy.PARTIAL,
            message_ids=[message.message_id for message in messages],
        )
        self._turns += 1
        due, reason = self._gc_plugin.should_collect(self.get_context_usage(), self._gc_config)
        result = self._execute_gc(reason) if due else None
        if result and "summary_tokens" in result.details:
            self._summaries += 1
            self._instruction_budget.add_child(
                CONVERSATION,
                f"gc_summary_{self._summaries}",
                result.details["summary_tokens"],
                GCPolicy.PRESERVABLE,
                "Context Summary",
            )
        return result

    @property
    def booked(self) -> int:
        """The tokens in the budget."""
        return self._instruction_budget.total_tokens()

    @property
    def sent(self) -> int:
        """The tokens of the history."""
        return count_tokens(self._history)


@pytest.fixture
def make_session(seeds: Seeds) -> Callable[[str], SeedSession]:
    methods = run(seeds["session"]) | run(seeds["context usage"])
    names = ("_execute_gc", "_apply_gc_removal_list", "get_context_usage")
    return type("Session", (SeedSession,), {name: methods[name] for name in names})


def plain_turn(number: int) -> list[Message]:
    return [
        Message.from_text(role, f"{role} says in turn {number} " + "what takes long. " * 10)
        for role in (Role.USER, Role.MODEL)
    ]


def turn_with_calls(number: int) -> list[Message]:
    """Returns a turn in which a command fails between two reads of one file."""
    request, answered = plain_turn(number)
    read, again = f"line {number % 3}\n" * 30, "ok\n" * 9
    exchanges = [("read", read), ("run", "error: no such file"), ("read", again)]
    messages = [request]
    for index, (name, result) in enumerate(exchanges):
        call_id = f"call_{number}_{index}"
        call = FunctionCall(call_id, name, {"path": "src/main.py"})
        answer = ToolResult(call_id, name, result, is_error=name == "run")
        messages.append(Message(Role.MODEL, [Part(function_call=call)]))
        messages.append(Message(Role.TOOL, [Part(function_response=answer)]))
    return [*messages, answered]


@pytest.mark.parametrize("make_turn", [plain_turn, turn_with_calls])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_budget_and_history_are_equal_after_every_collection(
    strategy: str,
    make_turn: Callable[[int], list[Message]],
    make_session: Callable[[str], SeedSession],
) -> None:
    session = make_session(strategy)
    collections = 0

    for number in range(TURNS):
        if result := session.add_turn(*make_turn(number)):
            collections += 1
            assert result.outcome is GCOutcome.REACHED, result
            assert session.booked == session.sent, result
            assert session.booked == result.tokens_after
            assert {item.action for item in result.removal_list} <= {"remove", "summarize"}
        assert session.sent <= WINDOW

    assert collections >= 3
