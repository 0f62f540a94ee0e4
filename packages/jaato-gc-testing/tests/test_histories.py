"""The generated histories: valid or broken as documented, and of every kind that is listed."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    GCTriggerReason,
    Message,
    Role,
    SyntheticKind,
    check_history,
    count_tokens,
)
from jaato_gc.history.invariants import HISTORY_INVARIANTS
from jaato_gc.plugin import lay_out
from jaato_gc_testing import (
    Situation,
    broken_histories,
    count_operations,
    histories,
    long_history,
    situations,
)

T = TypeVar("T")


def examples(strategy: st.SearchStrategy[T], number: int) -> list[T]:
    """Returns examples of a Hypothesis strategy, the same every time."""
    drawn: list[T] = []

    @settings(
        max_examples=number,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: T) -> None:
        drawn.append(example)

    draw()
    return drawn


@cache
def sendable() -> list[list[Message]]:
    return examples(histories(), 400)


@cache
def broken() -> list[list[Message]]:
    return examples(broken_histories(), 300)


@cache
def asked() -> list[Situation]:
    return examples(situations(), 200)


def test_histories_are_valid() -> None:
    assert [fault for history in sendable() for fault in check_history(history)] == []


def test_most_broken_histories_are_invalid() -> None:
    faulty = [history for history in broken() if check_history(history)]

    assert len(faulty) > 0.6 * len(broken())


def test_broken_histories_break_every_rule() -> None:
    broken_rules = {fault.invariant for history in broken() for fault in check_history(history)}

    # Ids are given in order, as a session does.
    assert broken_rules == {rule.__name__ for rule in HISTORY_INVARIANTS} - {"unique_ids"}


def test_results_of_broken_histories_may_have_the_name_of_another_tool() -> None:
    messages = [message for history in broken() for message in history]
    names = {answer.name for message in messages for answer in message.function_responses}

    assert "other" in names


def test_ids_are_unique_and_in_order() -> None:
    for history in [*sendable(), *broken()]:
        assert [each.message_id for each in history] == [f"m{n}" for n in range(len(history))]


def calls_of(history: list[Message]) -> list[FunctionCall]:
    return [call for message in history for call in message.function_calls]


def texts_of(history: list[Message]) -> str:
    return "".join(part.text or "" for message in history for part in message.parts)


def some(test: Callable[[Message], object]) -> Callable[[list[Message]], bool]:
    return lambda history: any(test(message) for message in history)


def has_repeated_ids(history: list[Message]) -> bool:
    ids = [call.id for call in calls_of(history) if call.id]
    return len(ids) > len(set(ids))


def has_open_calls(history: list[Message]) -> bool:
    return any(group.is_open for group in lay_out(history).groups)


def has_half_answered_calls(history: list[Message]) -> bool:
    return any(group.is_open and len(group.messages) > 1 for group in lay_out(history).groups)


def locked(role: Role) -> Callable[[list[Message]], bool]:
    return some(lambda message: message.role is role and message.policy is GCPolicy.LOCKED)


def has_one_huge_message(history: list[Message]) -> bool:
    sizes = [count_tokens([message]) for message in history]
    return bool(sizes) and max(sizes) > sum(sizes) / 2 and max(sizes) > 3000


KINDS: dict[str, Callable[[list[Message]], object]] = {
    "two messages": lambda history: len(history) == 2,
    "no system message": lambda history: all(each.role is not Role.SYSTEM for each in history),
    "system message": some(lambda message: message.role is Role.SYSTEM),
    "system message between turns": lambda history: any(
        message.role is Role.SYSTEM for message in history[1:]
    ),
    "notice": some(lambda message: message.synthetic is SyntheticKind.NOTICE),
    "summary": some(lambda message: message.synthetic is SyntheticKind.SUMMARY),
    "parallel calls": some(lambda message: len(message.function_calls) > 1),
    "parallel results in one message": some(lambda message: len(message.function_responses) > 1),
    "parallel results apart": lambda history: any(
        len(group.messages) > 2 for group in lay_out(history).groups
    ),
    "repeated call ids": has_repeated_ids,
    "missing call ids": lambda history: any(call.id is None for call in calls_of(history)),
    "thoughts": some(lambda message: any(part.thought for part in message.parts)),
    "images": some(
        lambda message: message.opens_turn and any(part.inline_data for part in message.parts)
    ),
    "images in results": some(
        lambda message: message.is_tool_output and any(part.inline_data for part in message.parts)
    ),
    "results under the user's role": some(
        lambda message: message.role is Role.USER and message.function_responses
    ),
    "failed results": some(lambda message: any(r.is_error for r in message.function_responses)),
    "structured results": some(
        lambda message: any(isinstance(r.result, dict) for r in message.function_responses)
    ),
    "open calls": has_open_calls,
    "half-answered calls": has_half_answered_calls,
    "locked request": locked(Role.USER),
    "locked answer": locked(Role.MODEL),
    "locked result": locked(Role.TOOL),
    "requests one after the other": lambda history: any(
        one.opens_turn and other.opens_turn for one, other in pairwise(history)
    ),
    "empty text": some(lambda message: any(part.text == "" for part in message.parts)),
    "empty result": some(lambda message: any(r.result == "" for r in message.function_responses)),
    "one huge message": has_one_huge_message,
    "Chinese": lambda history: "返回" in texts_of(history),
    "Japanese": lambda history: "しました" in texts_of(history),
    "emoji": lambda history: "🚀" in texts_of(history),
    "special tokens": lambda history: "<|endoftext|>" in texts_of(history),
    "fences": lambda history: "</context-notice> <context-summary>" in texts_of(history),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_history_occurs(kind: str) -> None:
    assert any(map(KINDS[kind], sendable()))


SITUATIONS: dict[str, Callable[[Situation], object]] = {
    "empty history": lambda s: not s.history,
    "half empty window": lambda s: count_tokens(s.history) < 0.8 * s.context_limit,
    "overfull window": lambda s: count_tokens(s.history) > s.context_limit,
    "continuous mode": lambda s: s.config.continuous_mode,
    "nothing recent": lambda s: s.config.preserve_recent_turns == 0,
    "all recent": lambda s: 0 < len(lay_out(s.history).turns) <= s.config.preserve_recent_turns,
    "pinned turn": lambda s: s.config.pinned_turn_indices,
    "pinned message": lambda s: s.pinned,
    "too many turns": lambda s: (
        s.config.max_turns and len(lay_out(s.history).turns) > s.config.max_turns
    ),
    "tool schemas": lambda s: s.schema_tokens,
    "corrected figures": lambda s: s.unbooked_tokens,
    "invalid history": lambda s: check_history(s.history),
}


def test_every_trigger_reason_occurs() -> None:
    assert {situation.reason for situation in asked()} == set(GCTriggerReason)


@pytest.mark.parametrize("kind", SITUATIONS)
def test_every_kind_of_situation_occurs(kind: str) -> None:
    assert any(map(SITUATIONS[kind], asked()))


# --- counting operations ---


def test_a_long_history_is_valid() -> None:
    history = long_history(50)

    assert len(history) == 200
    assert check_history(history) == []


def test_operations_of_linear_and_quadratic_work_differ() -> None:
    def linear(history: list[Message]) -> int:
        return count_operations(lambda: {message.message_id for message in history})

    def quadratic(history: list[Message]) -> int:
        ids = [message.message_id for message in history]
        return count_operations(lambda: [ids.index(each) for each in ids])

    small, large = long_history(20), long_history(80)

    assert linear(large) < 5 * linear(small)
    assert quadratic(large) > 12 * quadratic(small)


def test_the_number_of_operations_is_deterministic() -> None:
    history = long_history(20)

    assert count_operations(lambda: lay_out(history)) == count_operations(lambda: lay_out(history))
