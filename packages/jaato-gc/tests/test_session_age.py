"""An old session: memory and `save()` follow the live history, not the number of turns."""

import gc
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCError,
    GCResult,
    GCSession,
    Message,
    Role,
    SyntheticKind,
    UndoError,
)
from jaato_gc.plugin import Collection, fenced
from jaato_gc_testing import (
    MemoryStash,
    OldestFirst,
    ScriptedStrategy,
    count_operations,
    message_ids,
    new_session,
    restarted,
    speak,
)

TURNS = 3_000


def one_turn_less(collection: Collection) -> None:
    """Removes the oldest turn that may be removed."""
    for turn in collection.turns[1:]:
        collection.remove(turn.groups, turn.key, "old")
        if collection.items:
            return


def session_of(turns: int, **options: Any) -> GCSession:
    """Returns a session whose collections remove one turn each."""
    session = new_session(
        ScriptedStrategy(one_turn_less), GCConfig(preserve_recent_turns=1), **options
    )
    speak(session, *range(turns))
    return session


def keys_of(result: GCResult) -> list[str]:
    return [key for item in result.removal_list for key in item.stash_keys]


def state(session: GCSession) -> Any:
    return session.save()


# --- which collections are kept ---


def test_the_last_collections_are_kept_and_all_are_counted() -> None:
    session = session_of(9, keep_collections=3)
    results = [session.manual_gc() for _ in range(5)]
    assert session.get_gc_history() == results[-3:]
    assert session.collection_count == 5

    again = restarted(session, keep_collections=3)
    assert again.get_gc_history() == results[-3:]
    assert again.collection_count == 5


def test_failed_and_unnecessary_collections_count_too() -> None:
    def fail(_: Collection) -> None:
        raise RuntimeError("no")

    session = new_session(ScriptedStrategy(fail), keep_collections=2)
    speak(session, 0)
    results = [session.manual_gc() for _ in range(4)]
    assert not any(result.success for result in results)
    assert session.get_gc_history() == results[-2:]
    assert session.collection_count == 4


def test_two_hundred_collections_are_kept_by_default() -> None:
    session = session_of(230)
    for _ in range(210):
        session.manual_gc()
    assert len(session.get_gc_history()) == 200
    assert session.get_gc_history()[0].gc_id == "gc_11"
    assert session.collection_count == 210


def test_a_dropped_collection_can_not_be_undone() -> None:
    session = session_of(9, keep_collections=2)
    for _ in range(4):
        session.manual_gc()
    before = state(session)
    with pytest.raises(UndoError, match=r"no collection 'gc_1': of 4 .* last 2 are kept"):
        session.undo("gc_1")
    assert state(session) == before
    session.undo()
    session.undo()
    before = state(session)
    with pytest.raises(
        UndoError, match=r"keep_collections or journal_bytes, .* restore_stashed\(keys, at='tail'\)"
    ):
        session.undo()
    assert state(session) == before
    assert message_ids(session)[:4] == ["u0", "a0", "u3", "a3"]


def test_a_collection_that_can_not_be_undone_says_why() -> None:
    session = session_of(4)
    session.manual_gc()
    session.undo()
    with pytest.raises(UndoError, match="'gc_1' was undone already"):
        session.undo("gc_1")
    with pytest.raises(UndoError, match=r"there is no collection 'gc_7'$"):
        session.undo("gc_7")
    with pytest.raises(UndoError, match=r"there is no collection to undo$"):
        session.undo()
    session.set_gc_plugin(ScriptedStrategy(lambda _: None))
    unchanged = session.manual_gc()
    with pytest.raises(UndoError, match="'gc_2' changed nothing"):
        session.undo(unchanged.gc_id)


def test_a_session_can_be_saved_without_its_journal() -> None:
    session = session_of(9)
    for _ in range(4):
        session.manual_gc()
    small, whole = session.save(journal=False), session.save()
    assert len(small) < len(whole)

    again = restarted(session)
    assert again.get_gc_history() == session.get_gc_history()
    again = GCSession.restore(
        small, strategy=session.strategy, counter=session.budget.counter, registry=session.registry
    )
    assert again.history == session.history
    assert again.get_gc_history() == []
    assert again.collection_count == 4
    with pytest.raises(UndoError, match="keep_collections"):
        again.undo()
    assert again.manual_gc().gc_id == "gc_5"


def test_a_session_can_keep_no_collections() -> None:
    session = session_of(5, keep_collections=0)
    assert session.manual_gc().tokens_freed
    assert session.get_gc_history() == []
    assert session.collection_count == 1
    with pytest.raises(UndoError, match="keep_collections"):
        session.undo()


def test_a_restored_session_has_its_own_limits() -> None:
    session = session_of(9)
    for _ in range(4):
        session.manual_gc()
    assert len(restarted(session, keep_collections=2).get_gc_history()) == 2
    again = restarted(session, journal_bytes=0)
    again.undo()
    with pytest.raises(UndoError, match="journal_bytes"):
        again.undo()


@pytest.mark.parametrize("number", [-1, 1.5, "200", True, None])
def test_a_wrong_number_of_collections_is_refused(number: Any) -> None:
    with pytest.raises(GCConfigError, match=r"keep_collections=.* an integer of 0 or more"):
        new_session(keep_collections=number)
    with pytest.raises(GCConfigError, match="journal_bytes"):
        new_session(journal_bytes=number)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 4), st.lists(st.sampled_from(["turn", "collect", "undo", "restart"])), st.data()
)
def test_undo_goes_back_as_far_as_collections_are_kept(
    keep: int, steps: list[str], data: st.DataObject
) -> None:
    """A model of the journal: histories before the collections that can be undone."""
    stash = MemoryStash() if data.draw(st.booleans(), label="stash") else None
    options: dict[str, Any] = {"keep_collections": keep, "stash": stash}
    if stash and data.draw(st.booleans(), label="journal_bytes=0"):
        options["journal_bytes"] = 0
    session = session_of(6, **options)
    turns = 6
    # The number of a collection, and the history before it.
    kept: list[tuple[int, Sequence[Message]]] = []
    for step in steps:
        if step == "turn":
            speak(session, turns)
            added = session.history[-2:]
            kept = [(number, [*history, *added]) for number, history in kept]
            turns += 1
        elif step == "restart":
            session = restarted(session, **options)
        elif step == "collect":
            before = session.history
            if session.manual_gc().items_collected:
                kept.append((session.collection_count, before))
        elif kept:
            session.undo()
            assert session.history == kept.pop()[1]
        else:
            with pytest.raises(UndoError):
                session.undo()
        kept = [each for each in kept if each[0] > session.collection_count - keep]
    while kept:
        session.undo()
        assert session.history == kept.pop()[1]
    with pytest.raises(UndoError):
        session.undo()


# --- content of dropped collections ---


def test_messages_of_a_dropped_collection_return_at_the_tail_only() -> None:
    session = session_of(9, keep_collections=1, stash=MemoryStash())
    dropped, kept = session.manual_gc(), session.manual_gc()
    session = restarted(session, keep_collections=1)
    before = state(session)
    with pytest.raises(GCError, match=r"the last 1 are kept\): .*at='tail'"):
        session.restore_stashed(keys_of(dropped))
    assert state(session) == before
    session.restore_stashed(keys_of(dropped), at="tail")
    assert session.history[-1].synthetic is SyntheticKind.RECALL
    assert "1 lorem ipsum" in session.history[-1].text
    session.undo()
    with pytest.raises(GCError, match="at='tail'"):
        session.restore_stashed(keys_of(kept))  # the restore was the last collection


def test_a_restored_message_keeps_its_place_after_its_collection_is_dropped() -> None:
    session = session_of(9, keep_collections=3, stash=MemoryStash())
    said = session.history
    first = session.manual_gc()
    session.restore_stashed(keys_of(first))
    assert session.history == said
    for _ in range(2):
        last = session.manual_gc()
    session.manual_gc()
    session = restarted(session, keep_collections=3)
    session.restore_stashed(keys_of(last))
    assert message_ids(session)[:6] == ["u0", "a0", "u2", "a2", "u4", "a4"]


# --- age ---


def summarizing(collection: Collection) -> None:
    """Replaces the oldest turns, and earlier summaries, by a summary."""
    for group in collection.groups:
        if group.messages[0].synthetic:
            collection.remove([group], collection.key_of(group), "summarized", "summarize")
    collection.remove_oldest(collection.turns, "oldest")
    if collection.items:
        kind = SyntheticKind.SUMMARY
        collection.insert(
            Message.from_text(Role.USER, fenced(kind, "a summary"), synthetic=kind), 1
        )


def with_ledger(collection: Collection) -> None:
    """Removes the oldest turns into the ledger."""
    collection.leave_ledger()
    collection.remove_oldest(collection.turns, "oldest")


KINDS: dict[str, Callable[[], Any]] = {
    "oldest": OldestFirst,
    "summary": lambda: ScriptedStrategy(summarizing),
    "ledger": lambda: ScriptedStrategy(with_ledger),
}


class ForgetfulStash(MemoryStash):
    """Keeps nothing, so that only the objects of the session are counted."""

    def put(self, gc_id: str, messages: Any) -> list[str]:
        keys = super().put(gc_id, messages)
        self.forget(keys)
        return keys


def age(session: GCSession) -> dict[str, int]:
    """Returns figures that grow with what a session keeps."""
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    return {
        "messages": kinds.count(Message),
        "results": kinds.count(GCResult),
        "bytes": len(session.save()),
        "operations of save": count_operations(session.save),
        "operations of restore": count_operations(lambda: restarted(session)),
    }


@pytest.mark.parametrize("has_stash", [False, True], ids=["no stash", "stash"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_session_of_thousands_of_turns_keeps_no_more_than_a_young_one(
    kind: str, has_stash: bool
) -> None:
    session = new_session(
        KINDS[kind](),
        GCConfig(preserve_recent_turns=2),
        context_limit=2_000,
        stash=ForgetfulStash() if has_stash else None,
    )

    def run(turns: range) -> None:
        for number in turns:
            session.append(Message.from_text(Role.USER, f"Question {number} " + "word " * 60))
            session.before_send()
            session.append(Message.from_text(Role.MODEL, f"Answer {number} " + "word " * 60))
            session.after_turn()

    run(range(TURNS // 2))
    assert session.collection_count > 220
    young = age(session)
    run(range(TURNS // 2, TURNS))
    old = age(session)
    assert session.collection_count > 440
    assert old == pytest.approx(young, rel=0.15)
    assert len(session.get_gc_history()) == 200


def test_a_saved_session_has_places_of_live_messages_only() -> None:
    session = session_of(9, keep_collections=1, stash=MemoryStash())
    for _ in range(4):
        session.manual_gc()
    saved = json.loads(session.save())
    assert sorted(saved["places"]) == sorted(message_ids(session))


def test_turns_to_pin_are_forgotten_when_they_end() -> None:
    session = session_of(3)
    for number in range(3, 40):
        session.set_gc_plugin(OldestFirst(), GCConfig(pinned_turn_indices=[number - 1, number]))
        speak(session, number)
    assert len(json.loads(session.save())["pinned_turns"]) <= 2


def test_the_journal_is_bounded_in_bytes_by_default() -> None:
    session = session_of(2, context_limit=40_000)
    for number in range(2, 90):
        session.append(Message.from_text(Role.USER, f"{number} " + "word " * 4_000))
        speak(session, number)
        session.manual_gc()
    assert len(session.save()) - len(session.save(journal=False)) <= 500_000
    undone = 0
    with suppress(UndoError):
        for _ in range(90):
            session.undo()
            undone += 1
    assert 10 < undone < 40
    with pytest.raises(UndoError, match="journal_bytes"):
        session.undo()


def test_the_newest_collection_can_be_undone_however_large_it_is() -> None:
    session = new_session(OldestFirst(), context_limit=1_000)
    speak(session, 0)
    session.append(Message.from_text(Role.USER, "word " * 5_000))
    speak(session, *range(1, 10))
    session.before_send()
    removed = session.get_gc_history()[-1].tokens_freed
    assert removed > 2 * 1_000
    assert len(session.history) < 21
    session.undo()
    assert len(session.history) == 21


# --- survived collections ---


def test_an_edit_by_the_host_is_not_a_collection_that_messages_survive() -> None:
    session = session_of(6)
    session.manual_gc()
    assert session.budget.collections_survived("u5") == 1
    session.remove("u4")
    assert session.budget.collections_survived("u5") == 1
    session.undo()
    assert session.budget.collections_survived("u5") == 1
    session.undo()
    assert session.budget.collections_survived("u5") == 0
    assert session.budget.collections == 0


def test_collections_after_an_undo_are_counted_for_messages_that_came_before_it() -> None:
    session = session_of(6)
    session.manual_gc()
    speak(session, 6)
    session.undo()
    assert session.budget.collections_survived("u6") == 0
    session.manual_gc()
    assert session.budget.collections_survived("u6") == 1
    assert session.budget.collections_survived("u5") == 1
