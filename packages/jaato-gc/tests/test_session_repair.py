"""Repair of a session's history: what it records, what it keeps, and undo."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InlineData,
    InvalidHistoryError,
    Message,
    Part,
    Role,
    StashError,
    ToolResult,
    check_history,
)
from jaato_gc_testing import (
    COUNTER,
    MemoryStash,
    OldestFirst,
    assert_in_step,
    broken_histories,
    histories,
    message_ids,
    new_session,
    speak,
)

USER = Message.from_text(Role.USER, "Look", message_id="u")
NEXT = Message.from_text(Role.USER, "Go on", message_id="next")
CALL = Message(Role.MODEL, [Part(function_call=FunctionCall("x", "look"))], "c")
IMAGE = Part(inline_data=InlineData("image/png", b"png", width=80, height=60))
LOST = Part(function_response=ToolResult("lost", "look", "line\n" * 50))
ORPHAN = Message(Role.TOOL, [LOST, IMAGE], "orphan")


def session_of(*messages: Message, repair: bool = True, **options: Any) -> GCSession:
    session = GCSession(repair=repair, counter=COUNTER, **options)
    for message in messages:
        session.append(message)
    return session


def state(session: GCSession) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(session.save())
    return {name: value for name, value in saved.items() if name != "plans_made"}


# --- what can't be sent ---


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        pytest.param([], "something_to_send", id="nothing"),
        pytest.param(
            [Message.from_text(Role.SYSTEM, "be kind")], "something_to_send", id="system only"
        ),
        pytest.param(
            [USER, Message.from_text(Role.TOOL, "ok")],
            "tool_messages_have_results",
            id="a tool message without a result",
        ),
        pytest.param(
            [USER, Message(Role.USER, CALL.parts), ORPHAN],
            "calls_by_model",
            id="a call of the user",
        ),
        pytest.param(
            [
                USER,
                Message(Role.MODEL, [*CALL.parts, *CALL.parts]),
                Message(Role.TOOL, [Part(function_response=ToolResult("x", "look"))] * 2),
            ],
            "unique_call_ids",
            id="one id for two calls",
        ),
        pytest.param(
            [USER, CALL, Message(Role.MODEL, [Part(function_response=ToolResult("x", "look"))])],
            "results_in_place",
            id="a result in a model message",
        ),
    ],
)
def test_a_history_that_no_provider_takes_is_not_sent(history: list[Message], rule: str) -> None:
    session = session_of(*history, repair=False)

    for _ in range(2):
        with pytest.raises(InvalidHistoryError, match=rule):
            session.before_send()


@pytest.mark.parametrize("repair", [False, True])
def test_a_session_without_messages_has_nothing_to_send(repair: bool) -> None:
    session = session_of(repair=repair)

    with pytest.raises(InvalidHistoryError, match="append a user message"):
        session.before_send()

    session.append(USER)
    assert session.before_send() == [USER]


def test_a_call_in_a_system_message_is_found_after_valid_requests() -> None:
    session = session_of(USER, repair=False)
    session.before_send()
    session.append(Message(Role.SYSTEM, CALL.parts, "s"))

    with pytest.raises(InvalidHistoryError, match="calls_by_model at message 's'"):
        session.before_send()


# --- what repair records ---


def test_an_orphan_with_an_image_is_removed_as_a_whole() -> None:
    session = session_of(USER, ORPHAN, NEXT)

    assert session.before_send() == [USER, NEXT]
    assert_in_step(session)


def test_a_repair_has_a_result_with_a_list_of_what_it_removed() -> None:
    session = session_of(USER, ORPHAN, NEXT)
    before = session.budget.total_tokens()

    session.before_send()

    [result] = session.get_gc_history()
    assert result.plugin_name == "repair"
    assert result.trigger_reason is GCTriggerReason.PRE_MESSAGE
    assert result.outcome is GCOutcome.REACHED
    assert (result.tokens_before, result.tokens_after) == (before, session.budget.total_tokens())
    [item] = result.removal_list
    assert (item.child_key, item.message_ids, item.action) == ("orphan", ["orphan"], "remove")
    assert item.reason == "repaired"
    assert item.tokens_freed == result.tokens_freed > 0
    assert "results_have_calls at message 'orphan'" in result.details["repaired"][0]


def test_a_message_that_loses_a_part_is_listed_as_shortened() -> None:
    mixed = Message(Role.USER, [LOST, Part(text="look here")], "mixed")
    session = session_of(USER, mixed)

    session.before_send()

    [item] = session.get_gc_history()[-1].removal_list
    assert (item.message_ids, item.action) == (["mixed"], "shorten")
    assert item.tokens_freed > 0


def test_a_repair_that_only_adds_or_moves_removes_nothing() -> None:
    late = Message(Role.TOOL, [Part(function_response=ToolResult("x", "look", "ok"))], "late")
    dangling = Message(Role.MODEL, [Part(function_call=FunctionCall("y", "look"))], "d")
    session = session_of(USER, CALL, NEXT, late, dangling, Message.from_text(Role.USER, "And?"))

    session.before_send()

    assert message_ids(session)[:6] == ["u", "c", "late", "next", "d", "repair-d"]
    [result] = session.get_gc_history()
    assert result.removal_list == []
    assert_in_step(session)


def test_a_valid_history_is_not_repaired() -> None:
    session = session_of(USER)
    session.before_send()

    assert session.get_gc_history() == []


# --- undo ---


@pytest.mark.parametrize("restarts", [False, True])
def test_a_repair_can_be_undone(restarts: bool) -> None:
    session = session_of(USER, ORPHAN, CALL, NEXT)
    before = session.history
    session.before_send()
    assert message_ids(session) == ["u", "c", "repair-c", "next"]
    if restarts:
        session = GCSession.restore(session.save(), counter=COUNTER, repair=True)

    session.undo()

    assert session.history == before
    assert_in_step(session)


def test_a_collection_before_a_repair_is_undone_after_it() -> None:
    session = new_session(OldestFirst(), GCConfig(preserve_recent_turns=1), repair=True)
    session.append(USER)
    session.append(CALL)
    session.pin("c")
    speak(session, 1, 2)
    before = session.history
    session.manual_gc()
    session.before_send()
    assert "repair-c" in message_ids(session)

    session.undo()
    session.undo()

    assert session.history == before
    assert_in_step(session)


@pytest.mark.parametrize("change", ["remove", "repair"])
def test_undoing_what_is_no_collection_does_not_make_entries_younger(change: str) -> None:
    session = session_of(USER, Message.from_text(Role.MODEL, "ok", message_id="m"))
    if change == "remove":
        session.remove("m")
    else:
        session.append(ORPHAN)
        session.before_send()

    session.undo()

    assert session.budget.collections == 0


def test_what_a_repair_removes_goes_into_the_stash() -> None:
    stash = MemoryStash()
    session = session_of(USER, ORPHAN, NEXT, stash=stash)

    session.before_send()

    [item] = session.get_gc_history()[-1].removal_list
    assert stash.restore(item.stash_keys) == [ORPHAN]


def test_a_stash_that_fails_leaves_an_invalid_history_unchanged() -> None:
    class Full(MemoryStash):
        def put(self, *_: Any, **__: Any) -> list[str]:
            raise StashError("the disk is full")

    session = session_of(USER, ORPHAN, NEXT, stash=Full())
    before = state(session)

    with pytest.raises(StashError, match="full"):
        session.before_send()

    assert state(session) == before


# --- what repair never takes ---


def test_a_locked_message_is_never_repaired_away() -> None:
    locked = Message(Role.TOOL, [LOST], "locked", policy=GCPolicy.LOCKED)
    session = session_of(USER, CALL, locked, NEXT)
    before = state(session)

    with pytest.raises(InvalidHistoryError, match=r"'locked'.*LOCKED.*session\.remove") as caught:
        session.before_send()

    assert state(session) == before
    assert {each.invariant for each in caught.value.violations} >= {"results_have_calls"}
    session.remove("locked", force=True)
    session.before_send()


def test_a_pinned_message_is_never_repaired_away() -> None:
    session = session_of(USER, ORPHAN, NEXT)
    session.pin("orphan")
    before = state(session)

    with pytest.raises(InvalidHistoryError, match=r"'orphan'.*pinned.*session\.unpin\('orphan'\)"):
        session.before_send()

    assert state(session) == before
    session.unpin("orphan")
    assert session.before_send() == [USER, NEXT]


def test_a_pinned_call_gets_its_missing_result() -> None:
    session = session_of(USER, CALL, NEXT)
    session.pin("c")

    session.before_send()

    assert message_ids(session) == ["u", "c", "repair-c", "next"]


def test_a_pinned_result_may_move_behind_its_call() -> None:
    late = Message(Role.TOOL, [Part(function_response=ToolResult("x", "look", "ok"))], "late")
    session = session_of(USER, CALL, NEXT, late)
    session.pin("late")

    session.before_send()

    assert message_ids(session) == ["u", "c", "late", "next"]
    assert session.budget.pinned_message_ids == {"late"}


def test_faults_that_can_not_be_repaired_leave_the_others_unrepaired() -> None:
    session = session_of(USER, ORPHAN, NEXT, CALL)
    before = state(session)

    with pytest.raises(InvalidHistoryError, match="append the results of its open calls"):
        session.before_send()

    assert state(session) == before


@settings(deadline=None, max_examples=150)
@given(st.one_of(histories(), broken_histories()), st.sets(st.integers(0, 20), max_size=2))
def test_a_repaired_history_is_valid_undoable_and_keeps_what_is_protected(
    history: list[Message], pinned: set[int]
) -> None:
    session = session_of(*history)
    for place in pinned:
        if place < len(history):
            session.pin(f"m{place}")
    before, saved = session.history, state(session)
    protected = [
        message
        for message in before
        if message.message_id in session.budget.pinned_message_ids
        or message.policy is GCPolicy.LOCKED
    ]
    try:
        sent = session.before_send()
    except InvalidHistoryError:
        assert state(session) == saved
        return
    assert check_history(sent) == []
    assert all(any(each is one for one in sent) for each in protected)
    assert_in_step(session)
    if session.get_gc_history():
        session.undo()
        assert session.history == before
        assert_in_step(session)
