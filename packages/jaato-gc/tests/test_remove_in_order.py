"""`Collection.remove_in_order`: a strategy gives the order, and removal stops at the goal."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import (
    GCConfig,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    ReadOnlyError,
)
from jaato_gc.history import KEEPING
from jaato_gc.plugin import Collection, RemovalUnit
from jaato_gc_testing import ScriptedStrategy, new_session, speak

CONFIG = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1, ledger_percent=0.0)


def filled(strategy: ScriptedStrategy, turns: int = 6) -> GCSession:
    session = new_session(
        strategy, CONFIG, context_limit=4_000, on_source_removed=lambda _source, _key: None
    )
    speak(session, *range(turns), calls=1)
    return session


def keys_removed(session: GCSession, target: float) -> list[str | None]:
    return [item.child_key for item in session.manual_gc(target_percent=target).removal_list]


def test_pieces_go_in_the_given_order_until_the_goal_is_reached() -> None:
    def select(collection: Collection) -> None:
        units = [RemovalUnit(turn.key, list(turn.groups)) for turn in collection.turns]
        collection.remove_in_order(reversed(units[:-1]), "newest_first")

    session = filled(ScriptedStrategy(select))
    keys = keys_removed(session, 100 * session.budget.total_tokens() / 4_000 - 8)

    assert keys
    assert keys == [f"turn_{number}" for number in range(4, 4 - len(keys), -1)]
    assert len(keys) < 4


def test_groups_go_one_by_one_under_their_own_keys() -> None:
    def select(collection: Collection) -> None:
        collection.remove_in_order(
            (group for group in collection.groups if group.is_call), "calls", to_goal=False
        )

    session = filled(ScriptedStrategy(select))
    result = session.manual_gc(target_percent=1)

    removed = [item.message_ids for item in result.removal_list if item.reason == "calls"]
    assert removed == [[f"c{number}.0", f"r{number}.0"] for number in range(5)]


def test_entries_of_the_budget_go_in_the_same_order() -> None:
    def select(collection: Collection) -> None:
        assert collection.budget
        entry = collection.budget.entries[InstructionSource.PLUGIN].children["schema"]
        collection.remove_in_order([entry, collection.groups[0]], "mixed", to_goal=False)

    session = filled(ScriptedStrategy(select))
    session.budget.add_child(InstructionSource.PLUGIN, "schema", 50, GCPolicy.EPHEMERAL)
    [first, *_] = session.manual_gc(target_percent=50).removal_list

    assert (first.source, first.child_key) == (InstructionSource.PLUGIN, "schema")
    assert (first.tokens_freed, first.reason) == (50, "mixed")


def test_without_a_goal_everything_that_is_given_goes() -> None:
    def select(collection: Collection) -> None:
        collection.remove_in_order(collection.groups, "all", to_goal=False)

    session = filled(ScriptedStrategy(select))
    session.manual_gc(target_percent=90)

    assert [each.message_id for each in session.history] == ["u0", "u5", "c5.0", "r5.0", "a5"]


@pytest.mark.parametrize("action", KEEPING)
def test_messages_are_not_removed_with_an_action_after_which_they_stay(action: Any) -> None:
    def select(collection: Collection) -> None:
        collection.remove(collection.groups, "key", "reason", action)

    result = filled(ScriptedStrategy(select)).manual_gc()

    assert "expected an action that removes" in str(result.error)


def test_nothing_is_removed_from_a_closed_collection() -> None:
    kept: list[Collection] = []
    session = filled(ScriptedStrategy(kept.append))
    session.manual_gc()

    with pytest.raises(ReadOnlyError):
        kept[0].remove_in_order(kept[0].groups, "late")


@given(seed=st.integers(), target=st.floats(1, 40))
def test_in_any_order_protected_groups_stay_and_no_more_goes_than_must(
    seed: int, target: float
) -> None:
    session = filled(ScriptedStrategy(id))
    usage = session.get_context_usage()
    config = CONFIG.for_one_collection({"target_percent": target})
    reason = GCTriggerReason.THRESHOLD
    collection = Collection.of(session.history, usage, config, reason, session.budget)
    groups = list(collection.groups)
    removable = [group for group in groups if collection.may_remove(group)]
    random.Random(seed).shuffle(groups)
    collection.remove_in_order(groups, "random")

    removed = [group for group in removable if not collection.may_remove(group)]
    assert not any(group.hold for group in removed)
    if collection.needs_more:
        assert removed == removable
    elif removed:
        last = max(removed, key=groups.index)
        assert collection.tokens_missing + collection.tokens_of(last) > 0
