"""What a session remembers of groups and policies is what it would find out anew."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    Collection,
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCResult,
    GCSession,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    StrategySettings,
    ToolResult,
    UndoError,
)
from jaato_gc._pairing import Pairing, pair_calls

CONVERSATION = InstructionSource.CONVERSATION
LONG = "lorem ipsum dolor sit amet " * 10


class Comparing(GCStrategy[StrategySettings]):
    """Removes the oldest turns, and looks at the history in two ways."""

    name = "gc_comparing"

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, Any]] = []
        """Groups and turns as the session has them, and as they are."""

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        anew = Collection(self.name, list(history), context_usage, config, reason, budget)
        found = described(anew)
        collection = self.begin(history, context_usage, config, reason, budget)
        self.seen.append((described(collection), found))
        collection.remove_oldest(collection.turns, "oldest")
        return collection.finish()


class OldestFirst(Comparing):
    """The same without looking."""

    def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
        collection = self.begin(*arguments)
        collection.remove_oldest(collection.turns, "oldest")
        return collection.finish()


def described(collection: Collection) -> Any:
    groups = [
        (
            [message.message_id for message in group.messages],
            (group.opens_turn, group.is_call, group.is_open, group.stands_apart),
            (group.policy, group.hold),
        )
        for group in collection.groups
    ]
    turns = [[message.message_id for message in turn.messages] for turn in collection.turns]
    return groups, turns


def new_session(plugin: Comparing | None = None) -> tuple[GCSession, Comparing]:
    plugin = plugin or Comparing()
    registry = PluginRegistry(load_installed=False)
    session = GCSession(context_limit=10**6, counter=EstimateCounter(), registry=registry)
    session.set_gc_plugin(plugin, GCConfig(preserve_recent_turns=1))
    return session, plugin


def say(session: GCSession, role: Role = Role.USER, **fields: Any) -> Message:
    return session.append(Message.from_text(role, LONG, **fields))


def call(session: GCSession, *ids: str | None) -> None:
    parts = [Part(function_call=FunctionCall(id, "look")) for id in ids]
    session.append(Message(Role.MODEL, parts))


def answer(session: GCSession, *ids: str | None) -> None:
    parts = [Part(function_response=ToolResult(id, "look", LONG)) for id in ids]
    session.append(Message(Role.TOOL, parts))


def plain_turn(session: GCSession) -> None:
    say(session)
    call(session, "a", "b")
    answer(session, "a")
    answer(session, "b")
    say(session, Role.MODEL)


def dear_turn(session: GCSession) -> None:
    say(session, policy=GCPolicy.PRESERVABLE)
    say(session, Role.MODEL)


def turn_without_ids(session: GCSession) -> None:
    say(session)
    call(session, None)
    answer(session, None)


def dangling_call(session: GCSession) -> None:
    say(session)
    call(session, "never answered")


def late_result(session: GCSession) -> None:
    answer(session, "never answered")


def system_prompt(session: GCSession) -> None:
    say(session, Role.SYSTEM)


def send(session: GCSession) -> None:
    with suppress(InvalidHistoryError):
        session.before_send()


def collect(session: GCSession) -> None:
    tokens = session.budget.counted_tokens()
    session.manual_gc(target_percent=max(0.001, tokens / 10**6 * 100 * 0.6))


def plan_only(session: GCSession) -> None:
    session.plan_gc()


def undo(session: GCSession) -> None:
    with suppress(UndoError):
        session.undo()


def lock_a_message(session: GCSession) -> None:
    message_id = session.history[len(session.history) // 2].message_id if session.history else "no"
    session.budget.add_child(
        CONVERSATION, f"kept_{message_id}", 0, GCPolicy.LOCKED, message_ids=[message_id]
    )


def forget_an_entry(session: GCSession) -> None:
    for message in session.history:
        if entry := session.budget.entry_of(message.message_id):
            session.budget.remove_child(entry.source, entry.key or "")
            return


Deed = Callable[[GCSession], None]
COMMON: list[Deed] = [plain_turn, plain_turn, dear_turn, send, collect, undo, plan_only]
ODD: list[Deed] = [turn_without_ids, dangling_call, late_result, system_prompt, lock_a_message]


@settings(deadline=None, max_examples=150)
@example([plain_turn, dangling_call, collect, late_result, send, collect])
@example([plain_turn, plain_turn, plan_only, undo, plain_turn, collect, undo, collect])
@given(st.lists(st.sampled_from(COMMON * 3 + ODD), max_size=40))
def test_a_strategy_is_given_the_groups_and_policies_that_it_would_find(deeds: list[Deed]) -> None:
    session, plugin = new_session()

    for deed in [*deeds, collect]:
        deed(session)

    for known, found in plugin.seen:
        assert known == found


def test_the_calls_of_a_plain_session_are_never_paired_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paired: list[int] = []

    def noted(history: Sequence[Message]) -> Pairing:
        paired.append(len(history))
        return pair_calls(history)

    session, _ = new_session(OldestFirst())
    monkeypatch.setattr("jaato_gc._turns.pair_calls", noted)
    for _ in range(5):
        for _ in range(5):
            send(session)
            plain_turn(session)
        assert session.manual_gc(target_percent=0.001).success

    assert not paired


def test_what_was_locked_since_the_last_collection_stays() -> None:
    session, plugin = new_session()
    for _ in range(20):
        plain_turn(session)
    collect(session)
    kept = session.history[len(session.history) // 2].message_id

    lock_a_message(session)
    session.manual_gc(target_percent=0.001)

    assert kept in {message.message_id for message in session.history}
    assert plugin.seen[-1][0] == plugin.seen[-1][1]


def test_what_is_booked_no_longer_is_as_dear_as_its_like() -> None:
    session, plugin = new_session()
    for _ in range(20):
        plain_turn(session)
    collect(session)

    forget_an_entry(session)  # the original request, which was LOCKED
    session.plan_gc()

    assert plugin.seen[-1][0] == plugin.seen[-1][1]
