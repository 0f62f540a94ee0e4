"""Repairing a history that a provider would refuse."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    check_history,
    repair_history,
)
from jaato_gc.history import pair_calls
from jaato_gc.history.repair import NO_BEGINNING, NO_RESULT
from jaato_gc_testing import broken_histories, histories

USER = Message.from_text(Role.USER, "fix it", message_id="u")
NEXT = Message.from_text(Role.USER, "and that", message_id="u2")
ANSWER = Message.from_text(Role.MODEL, "done", message_id="m")


def call_part(call_id: str | None) -> Part:
    return Part(function_call=FunctionCall(call_id, "bash"))


def result_part(call_id: str | None, result: str = "ok") -> Part:
    return Part(function_response=ToolResult(call_id, "bash", result))


def calls(message_id: str, *call_ids: str | None) -> Message:
    return Message(Role.MODEL, [call_part(call_id) for call_id in call_ids], message_id)


def results(message_id: str, *call_ids: str | None, policy: GCPolicy | None = None) -> Message:
    parts = [result_part(call_id) for call_id in call_ids]
    return Message(Role.TOOL, parts, message_id, policy=policy)


def ids(history: list[Message]) -> list[str]:
    return [message.message_id for message in history]


# --- examples ---


def test_a_dangling_call_is_answered_by_a_result_that_says_so() -> None:
    repaired = repair_history([USER, calls("c", "x"), NEXT])

    assert ids(repaired) == ["u", "c", "repair-c", "u2"]
    [answer] = repaired[2].function_responses
    assert (answer.call_id, answer.name, answer.is_error) == ("x", "bash", True)
    assert "no result" in answer.result


def test_only_the_missing_answers_of_a_batch_are_added() -> None:
    repaired = repair_history([USER, calls("c", "x", "y"), results("r", "x"), ANSWER])

    assert ids(repaired) == ["u", "c", "r", "repair-c", "m"]
    assert [answer.call_id for answer in repaired[3].function_responses] == ["y"]


def test_calls_that_end_the_history_stay_open() -> None:
    history = [USER, calls("c", "x", "y"), results("r", "x")]

    assert repair_history(history) == history


def test_a_result_without_a_call_is_dropped() -> None:
    assert ids(repair_history([USER, results("r", "x"), ANSWER])) == ["u", "m"]


def test_only_the_orphan_is_dropped_from_a_message_of_several_results() -> None:
    repaired = repair_history([USER, calls("c", "x"), results("r", "x", "y"), ANSWER])

    assert ids(repaired) == ["u", "c", "r", "m"]
    assert [answer.call_id for answer in repaired[2].function_responses] == ["x"]


def test_a_result_that_stands_elsewhere_moves_behind_its_call() -> None:
    late = results("r", "x")
    repaired = repair_history([USER, calls("c", "x"), NEXT, ANSWER, late])

    assert ids(repaired) == ["u", "c", "r", "u2", "m"]
    assert repaired[2] is late


def test_text_beside_a_moved_result_stays_where_it_was() -> None:
    mixed = Message(Role.USER, [result_part("x"), Part(text="go on")], "mixed")
    repaired = repair_history([USER, calls("c", "x"), NEXT, mixed])

    assert ids(repaired) == ["u", "c", "repair-mixed-c", "u2", "mixed"]
    assert repaired[4].text == "go on"
    assert not repaired[4].function_responses


@pytest.mark.parametrize("call_id", ["x", None], ids=["repeated", "missing"])
def test_results_of_one_message_that_belong_behind_two_calls_get_an_id_each(
    call_id: str | None,
) -> None:
    both = results("r", call_id, call_id)
    repaired = repair_history(
        [USER, calls("c1", call_id), NEXT, calls("c2", call_id), ANSWER, both]
    )

    assert check_history(repaired) == []
    new = [message_id for message_id in ids(repaired) if message_id.startswith("repair-")]
    assert len(new) == len(set(new)) == 2


def test_a_result_that_moves_alone_is_as_locked_as_the_message_it_came_from() -> None:
    locked = results("r", "x", "y", policy=GCPolicy.LOCKED)
    repaired = repair_history([USER, calls("c1", "x"), NEXT, calls("c2", "y"), locked])

    policies = {message.policy for message in repaired if message.function_responses}
    assert policies == {GCPolicy.LOCKED}


def test_a_call_and_its_result_in_one_message_stay_together() -> None:
    both = Message(Role.MODEL, [call_part("x"), result_part("x")], "b")
    history = [USER, both, ANSWER]

    assert repair_history(history) == history


def test_a_message_that_answers_one_call_and_makes_another_is_split() -> None:
    both = Message(Role.MODEL, [result_part("x"), call_part("y")], "b")
    history = [USER, calls("c", "x"), both, ANSWER, results("late", "y")]

    repaired = repair_history(history)

    assert ids(repaired) == ["u", "c", "repair-b-c", "b", "late", "m"]
    assert repaired[2].role is Role.TOOL
    assert check_history(repaired) == []


@pytest.mark.parametrize("role", [Role.MODEL, Role.SYSTEM])
def test_a_result_in_a_message_of_the_model_or_the_system_becomes_a_tool_message(
    role: Role,
) -> None:
    answer = replace(results("r", "x"), role=role)

    assert repair_history([USER, calls("c", "x"), answer]) == [
        USER,
        calls("c", "x"),
        results("r", "x"),
    ]


@pytest.mark.parametrize("role", [Role.USER, Role.TOOL, Role.SYSTEM])
def test_a_call_of_another_role_moves_into_a_model_message(role: Role) -> None:
    mixed = Message(role, [result_part("x"), Part(text="look"), call_part("y")], "mixed")
    history = [USER, calls("c", "x"), mixed, results("r", "y"), ANSWER]

    repaired = repair_history(history)

    assert check_history(repaired) == []
    [caller] = [message for message in repaired if message.message_id == "repair-mixed"]
    assert caller == replace(calls("repair-mixed", "y"))
    [*_, result, _] = repaired
    assert result == results("r", "y")


def test_calls_with_one_id_are_numbered_and_answered_in_their_order() -> None:
    answers = Message(Role.TOOL, [result_part("x", "first"), result_part("x", "second")], "r")
    repaired = repair_history([USER, calls("c", "x", "x"), answers, ANSWER])

    assert [call.id for call in repaired[1].function_calls] == ["x", "x-2"]
    answered = [(each.call_id, each.result) for each in repaired[2].function_responses]
    assert answered == [("x", "first"), ("x-2", "second")]


def test_calls_with_one_id_that_the_provider_signed_are_not_changed() -> None:
    signed = replace(call_part("x"), extra={"thoughtSignature": "c2ln"})
    history = [USER, Message(Role.MODEL, [signed, signed], "c"), results("r", "x", "x")]

    assert repair_history(history) == history


def test_a_call_and_a_misplaced_result_in_one_part_are_separated() -> None:
    both = replace(call_part("y"), function_response=ToolResult("x", "bash", "ok"))
    history = [USER, calls("c", "x"), Message(Role.MODEL, [both], "b"), results("r", "y")]

    repaired = repair_history(history)

    assert ids(repaired) == ["u", "c", "repair-b-c", "b", "r"]
    assert check_history(repaired) == []


def test_an_image_goes_with_the_result_before_it() -> None:
    image = Part(inline_data=InlineData("image/png", b"png"))
    orphan = Message(Role.TOOL, [result_part("lost"), image], "orphan")
    late = Message(Role.TOOL, [result_part("x"), image], "late")

    repaired = repair_history([USER, calls("c", "x"), orphan, NEXT, late])

    assert repaired == [USER, calls("c", "x"), late, NEXT]


def test_an_image_beside_an_orphan_in_a_user_message_stays() -> None:
    image = Part(inline_data=InlineData("image/png", b"png"))
    mixed = Message(Role.USER, [result_part("lost"), image], "mixed")

    assert repair_history([USER, mixed]) == [USER, mixed.with_parts([image])]


def test_a_tool_message_without_a_result_is_removed() -> None:
    stray = Message.from_text(Role.TOOL, "ok", message_id="stray")

    assert repair_history([USER, calls("c", "x"), stray, results("r", "x")]) == [
        USER,
        calls("c", "x"),
        results("r", "x"),
    ]


def test_an_empty_message_is_removed() -> None:
    empty = [Message(Role.MODEL, [], "e1"), Message(Role.USER, [Part(thought="hm")], "e2")]

    assert repair_history([USER, *empty, ANSWER]) == [USER, ANSWER]


def test_a_missing_beginning_is_said_to_be_missing() -> None:
    system = Message.from_text(Role.SYSTEM, "be kind", message_id="s")
    repaired = repair_history([system, ANSWER, NEXT])

    assert ids(repaired) == ["s", "repair-before-m", "m", "u2"]
    assert repaired[1].text == "[the beginning of this conversation was not recorded]"


def test_repeated_message_ids_get_a_number() -> None:
    assert ids(repair_history([USER, USER, USER, ANSWER])) == ["u", "repair-u", "repair-u-2", "m"]


def test_new_ids_differ_from_existing_ones() -> None:
    taken = Message.from_text(Role.MODEL, "done", message_id="repair-c")

    assert ids(repair_history([USER, calls("c", "x"), taken])) == [
        "u",
        "c",
        "repair-c-2",
        "repair-c",
    ]


def test_nothing_is_made_of_a_history_without_messages() -> None:
    assert repair_history([]) == []


def test_what_an_orphan_leaves_behind_does_not_part_a_call_from_its_result() -> None:
    mixed = Message(Role.USER, [result_part("orphan"), Part(text="look")], "mixed")
    history = [USER, calls("c", "x"), mixed, results("r", "x"), ANSWER]

    assert ids(repair_history(history)) == ["u", "c", "r", "mixed", "m"]


def test_what_an_orphan_leaves_behind_ends_the_calls_before_it() -> None:
    mixed = Message(Role.USER, [result_part("orphan"), Part(text="look")], "mixed")

    repaired = repair_history([USER, calls("c", "x"), mixed])
    assert ids(repaired) == ["u", "c", "repair-c", "mixed"]


# --- any history ---

ANY_BROKEN = settings(deadline=None, max_examples=120)


@ANY_BROKEN
@given(broken_histories())
def test_a_repaired_history_is_valid_unless_it_has_no_messages(history: list[Message]) -> None:
    repaired = repair_history(history)

    is_empty = all(message.role is Role.SYSTEM for message in repaired)
    assert [each.invariant for each in check_history(repaired)] == ["something_to_send"] * is_empty


@ANY_BROKEN
@given(broken_histories())
def test_calls_texts_and_answered_results_are_never_lost(history: list[Message]) -> None:
    def calls_of(messages: list[Message]) -> list[tuple[str, object]]:
        return [(call.name, call.args) for each in messages for call in each.function_calls]

    def texts_of(messages: list[Message]) -> list[str]:
        said = [each for each in messages if each.role is not Role.TOOL and not each.is_empty]
        said = [each for each in said if not each.keeps_place]  # they go if they lose their place
        return [part.text for each in said for part in each.parts if part.text]

    repaired = repair_history(history)
    assert calls_of(repaired) == calls_of(history)
    assert [text for text in texts_of(repaired) if text != NO_BEGINNING] == texts_of(history)
    callers = [each for found in pair_calls(history).callers.values() for each in found]
    answers = [each.result for message in repaired for each in message.function_responses]
    recorded = [each for each in answers if each != NO_RESULT]
    assert len(recorded) == len([caller for caller in callers if caller is not None])


@ANY_BROKEN
@given(broken_histories())
def test_a_second_repair_changes_nothing(history: list[Message]) -> None:
    repaired = repair_history(history)
    again = repair_history(repaired)

    assert len(again) == len(repaired)
    assert all(new is old for new, old in zip(again, repaired, strict=True))


@ANY_BROKEN
@given(broken_histories())
def test_the_same_damage_is_repaired_to_the_same_messages(history: list[Message]) -> None:
    untouched = deepcopy(history)

    assert repair_history(history) == repair_history(untouched)
    assert history == untouched


@ANY_BROKEN
@given(st.one_of(histories(), broken_histories()))
def test_a_history_in_order_stays_as_it_is(history: list[Message]) -> None:
    if check_history(history):
        return
    repaired = repair_history(history)

    assert len(repaired) == len(history)
    assert all(new is old for new, old in zip(repaired, history, strict=True))
