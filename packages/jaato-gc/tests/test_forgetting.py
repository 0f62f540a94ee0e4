"""Forgetting removed content: in the stash, the journal and the ledger."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCError,
    GCResult,
    GCSession,
    Message,
    NotConfiguredError,
    Part,
    Role,
    StalePlanError,
    StashError,
    SyntheticKind,
    ToolResult,
    UndoError,
    check_history,
    message_to_dict,
)
from jaato_gc.plugin import Collection, Shortening
from jaato_gc_testing import (
    MemoryStash,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
)

LONG = "some output that is not needed any more " * 12
COLLECT: Any = {"target_percent": 8, "ledger_percent": 100}


class OpenStash(MemoryStash):
    """A stash whose content can be looked through."""

    def text(self) -> str:
        entries = map(self.get, list(self._entries))
        return json.dumps([message_to_dict(each.message) for each in entries if each])


def asked(name: str, text: str = "go on") -> Message:
    return Message.from_text(Role.USER, text, message_id=name)


def called(name: str, command: str, result: str = LONG) -> list[Message]:
    call = FunctionCall(name, "bash", {"command": command})
    answer = Part(function_response=ToolResult(name, "bash", result))
    return [
        Message(Role.MODEL, [Part(function_call=call)], f"c{name}"),
        Message(Role.TOOL, [answer], f"r{name}"),
    ]


def oldest(collection: Collection) -> None:
    collection.leave_ledger()
    collection.remove_oldest(collection.turns, "oldest")


def shorten(collection: Collection) -> None:
    for group in collection.groups:
        collection.shorten(group, "cleared", Shortening(head=30))


def session_of(*messages: Message, script: Any = oldest, **options: Any) -> GCSession:
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1, target_percent=40)
    options = {"context_limit": 3_000, "stash": OpenStash(), **options}
    session = new_session(ScriptedStrategy(script), config, **options)
    for message in messages:
        session.append(message)
    return session


def secret(number: int) -> list[Message]:
    """A call whose command and output each have a name that nothing else has."""
    return called(
        f"{number}", f"make target_{number}_in", f"{LONG}\n{LONG} wrote build/out_{number}_name.bin"
    )


def with_secrets(*numbers: int, **options: Any) -> GCSession:
    messages = [each for number in numbers for each in secret(number)]
    return session_of(asked("u"), *messages, **options)


def keys_of(results: Iterable[GCResult]) -> dict[str, str]:
    """Returns the newest stash keys by message id."""
    return {
        message_id: key
        for result in results
        for item in result.removal_list
        for message_id, key in zip(item.message_ids, item.stash_keys, strict=True)
    }


def ledger_of(session: GCSession) -> str:
    (ledger,) = [each for each in session.history if each.synthetic is SyntheticKind.LEDGER]
    return ledger.text


def assert_forgotten(session: GCSession, number: int) -> None:
    """The names of a secret are neither in the session nor in its stash."""
    assert isinstance(session.stash, OpenStash)
    for text in (session.save(), session.stash.text()):
        assert f"target_{number}_in" not in text
        assert f"out_{number}_name" not in text
    assert_in_step(session)
    assert check_history(session.history) == []


def test_forgotten_content_leaves_stash_ledger_journal_and_budget() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    before = session.budget.total_tokens()
    assert "target_0_in" in ledger_of(session)

    assert session.forget([keys["c0"], keys["r0"]]) == 2

    assert_forgotten(session, 0)
    assert "make target_1_in" in ledger_of(session)
    assert session.budget.total_tokens() < before
    assert message_ids(session) == ["u", "gc_ledger", "c2", "r2"]


def test_a_command_leaves_the_ledger_with_its_result() -> None:
    """A line of the ledger has the command and the last line of its output."""
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])

    assert session.forget([keys["r0"]]) == 1
    assert "out_0_name" not in ledger_of(session)
    assert "out_0_name" not in session.save()
    assert "out_1_name" in ledger_of(session)


def test_a_collection_with_forgotten_content_can_not_be_undone() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    session.forget([keys["c0"], keys["r0"]])
    before = session.history

    with pytest.raises(UndoError, match=r"content of 'gc_1' was forgotten"):
        session.undo()
    assert session.history == before
    again = restarted(session)
    with pytest.raises(UndoError, match=r"content of 'gc_1' was forgotten"):
        again.undo()


@pytest.mark.parametrize("journal_bytes", [0, 100_000])
def test_a_later_collection_can_be_undone_but_does_not_restore_the_old_ledger(
    journal_bytes: int,
) -> None:
    session = with_secrets(0, 1, 2, journal_bytes=journal_bytes)
    keys = keys_of([session.manual_gc(**COLLECT)])
    for message in secret(3):
        session.append(message)
    session.manual_gc(**COLLECT)
    assert isinstance(session.stash, OpenStash)
    assert "target_0_in" in session.stash.text(), "in the ledger that was replaced"

    session.forget([keys["c0"], keys["r0"]])
    assert_forgotten(session, 0)

    session.undo()
    assert_forgotten(session, 0)
    assert message_ids(session) == ["u", "gc_ledger", "c2", "r2", "c3", "r3"]
    assert "make target_1_in" in ledger_of(session)
    assert "target_2_in" not in ledger_of(session)
    with pytest.raises(UndoError, match="forgotten"):
        session.undo()


def test_a_ledger_without_entries_keeps_its_place_so_that_later_collections_can_be_undone() -> None:
    session = with_secrets(0, 1)
    keys = keys_of([session.manual_gc(**COLLECT)])
    for message in secret(2):
        session.append(message)
    session.manual_gc(**COLLECT)
    keys |= keys_of(session.get_gc_history())
    session.forget(keys.values())

    assert "gc_ledger" in message_ids(session)
    assert "removed" in ledger_of(session)
    assert "record" not in ledger_of(session)
    for number in range(2):
        assert_forgotten(session, number)
    for message in secret(3):
        session.append(message)
    session.manual_gc(**COLLECT)
    session.undo()
    assert_in_step(session)


def test_a_later_ledger_does_not_list_forgotten_content_again() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    session.forget([keys["c0"], keys["r0"]])
    for message in secret(3):
        session.append(message)
    session.manual_gc(**COLLECT)

    assert_forgotten(session, 0)
    assert "make target_2_in" in ledger_of(session)


def test_other_messages_of_the_same_collection_can_still_be_restored() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    session.forget([keys["c0"], keys["r0"]])

    session.restore_stashed([keys["r1"]])
    assert message_ids(session)[-4:] == ["c1", "r1", "c2", "r2"]
    with pytest.raises(StashError):
        session.restore_stashed([keys["r0"]])
    assert_in_step(session)


def test_half_of_a_forgotten_exchange_is_not_restored_in_place() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    session.forget([keys["r0"]])
    before = session.history

    with pytest.raises(GCError):
        session.restore_stashed([keys["c0"]])
    assert session.history == before


def test_every_stashed_form_of_a_message_is_forgotten() -> None:
    session = with_secrets(0, 1, 2, script=shorten)
    whole = keys_of([session.manual_gc(**COLLECT)])["r0"]
    session.set_gc_plugin(ScriptedStrategy(oldest), GCConfig(preserve_recent_groups=1))
    short = keys_of([session.manual_gc(**COLLECT)])["r0"]
    assert whole != short

    assert session.forget([whole]) == 2
    assert session.stash
    assert session.stash.get(short) is None
    assert "out_0_name" not in session.save()


def test_a_live_short_form_stays_but_can_not_become_whole_again() -> None:
    session = with_secrets(0, 1, 2, script=shorten)
    keys = keys_of([session.manual_gc(**COLLECT)])
    before = session.history

    assert session.forget([keys["r0"]]) == 1
    assert session.history == before
    with pytest.raises(UndoError, match="forgotten"):
        session.undo()


def test_what_the_stash_lost_already_is_still_forgotten_by_the_session() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    assert session.stash
    session.stash.forget([keys["c0"], keys["r0"]])

    assert session.forget([keys["c0"], keys["r0"]]) == 0
    assert_forgotten(session, 0)


def test_content_beside_some_that_was_not_stashed_is_forgotten_too() -> None:
    def partly_kept(collection: Collection) -> None:
        first, second, *_ = [group for group in collection.groups if group.is_call]
        collection.leave_ledger()
        collection.remove([first], "first", "old", stash=False)
        collection.remove([second], "second", "old")

    session = with_secrets(0, 1, 2, script=partly_kept)
    result = session.manual_gc(**COLLECT)
    keys = result.removal_list[1].stash_keys
    assert session.stash
    session.stash.forget(keys)
    session.forget(keys)

    assert_forgotten(session, 1)
    with pytest.raises(UndoError, match="forgotten"):
        session.undo()


def test_messages_can_be_forgotten_one_after_the_other() -> None:
    session = with_secrets(0, 1, 2, 3)
    keys = keys_of([session.manual_gc(**COLLECT)])
    for message in secret(4):
        session.append(message)
    session.manual_gc(**COLLECT)
    for number in range(3):
        session.forget([keys[f"c{number}"], keys[f"r{number}"]])
        for each in range(number + 1):
            assert_forgotten(session, each)

    session.undo()
    for number in range(3):
        assert_forgotten(session, number)
    session.forget(["unknown"])
    with pytest.raises(UndoError, match="forgotten"):
        session.undo()


def test_forgotten_content_does_not_count_as_content_of_the_journal() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    (before,) = json.loads(session.save())["journal"]
    session.forget([keys["c0"], keys["r0"]])
    (after,) = json.loads(session.save())["journal"]

    assert len(json.dumps(after)) < len(json.dumps(before)) - len(LONG)


def test_unknown_keys_change_nothing() -> None:
    session = with_secrets(0, 1, 2)
    session.manual_gc(**COLLECT)
    before = session.save()

    assert session.forget(["nothing", "0" * 16]) == 0
    assert session.forget([]) == 0
    assert session.save() == before
    session.undo()


@pytest.mark.parametrize("wrong", ["0f3c", 5, None, [5]])
def test_keys_have_to_be_a_list_of_keys(wrong: Any) -> None:
    session = with_secrets(0, 1, 2)
    with pytest.raises(GCError, match=r"expected a list of keys"):
        session.forget(wrong)


def test_without_a_stash_there_is_nothing_to_forget() -> None:
    with pytest.raises(NotConfiguredError, match=r"GCSession\(stash=…\)"):
        session_of(stash=None).forget([])


def test_a_stash_that_fails_changes_nothing_and_forgetting_can_be_repeated() -> None:
    class Failing(OpenStash):
        fails = False

        def forget(self, keys: Iterable[str] | None = None) -> int:
            if self.fails:
                raise StashError("the disk is gone")
            return super().forget(keys)

    stash = Failing()
    session = with_secrets(0, 1, 2, stash=stash)
    keys = keys_of([session.manual_gc(**COLLECT)])
    before = (session.history, session.budget.snapshot(), session.save())
    stash.fails = True
    with pytest.raises(StashError):
        session.forget([keys["c0"], keys["r0"]])
    assert (session.history, session.budget.snapshot(), session.save()) == before

    stash.fails = False
    assert session.forget([keys["c0"], keys["r0"]]) == 2
    assert_forgotten(session, 0)


def test_observers_get_the_smaller_budget() -> None:
    snapshots: list[dict[str, Any]] = []
    session = with_secrets(0, 1, 2, on_instruction_budget_updated=snapshots.append)
    keys = keys_of([session.manual_gc(**COLLECT)])
    del snapshots[:]
    session.forget([keys["c0"], keys["r0"]])

    assert snapshots == [session.budget.snapshot()]


def test_an_older_plan_does_not_restore_the_ledger() -> None:
    session = with_secrets(0, 1, 2)
    keys = keys_of([session.manual_gc(**COLLECT)])
    for message in secret(3):
        session.append(message)
    plan = session.plan_gc(**COLLECT)
    session.forget([keys["c0"], keys["r0"]])

    with pytest.raises(StalePlanError):
        session.apply(plan)
    assert_forgotten(session, 0)


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["collect", "shorten", "undo", "restart"]),
        st.tuples(st.just("forget"), st.integers(0, 9)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([0, 700, 100_000]))
def test_no_sequence_of_steps_brings_forgotten_content_back(
    steps: list[Any], journal_bytes: int
) -> None:
    session = with_secrets(0, 1, 2, journal_bytes=journal_bytes)
    forgotten: set[int] = set()
    number = 3
    for step in steps:
        if step in ("collect", "shorten"):
            script = oldest if step == "collect" else shorten
            session.set_gc_plugin(ScriptedStrategy(script), GCConfig(preserve_recent_groups=1))
            session.manual_gc(**COLLECT)
            for message in secret(number):
                session.append(message)
            number += 1
        elif step == "undo":
            with contextlib.suppress(UndoError):
                session.undo()
        elif step == "restart":
            session = restarted(session, journal_bytes=journal_bytes)
        else:
            keys = keys_of(session.get_gc_history())
            wanted = step[1]
            session.forget(keys[each] for each in (f"c{wanted}", f"r{wanted}") if each in keys)
            present = {f"c{wanted}", f"r{wanted}"} & set(message_ids(session))
            if f"c{wanted}" in keys and not present:
                forgotten.add(wanted)
        for each in forgotten:
            assert_forgotten(session, each)
        assert_in_step(session)
