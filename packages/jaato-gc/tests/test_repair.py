"""Repairing a history that a provider would refuse."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCPolicy,
    Message,
    Part,
    Role,
    ToolResult,
    check_history,
    repair_history,
)
from jaato_gc_testing import broken_histories, histories

CALL_RULES = {"results_have_calls", "results_follow_calls", "calls_have_results"}

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


def broken_call_rules(history: list[Message]) -> list[str]:
    return [str(each) for each in check_history(history) if each.invariant in CALL_RULES]


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

    assert broken_call_rules(repaired) == []
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


def test_the_results_of_a_message_that_answers_and_calls_stay_behind_it() -> None:
    both = Message(Role.MODEL, [result_part("x"), call_part("y")], "b")
    history = [USER, calls("c", "x"), both, ANSWER, results("late", "y")]

    assert ids(repair_history(history)) == ["u", "c", "b", "late", "m"]


def test_what_an_orphan_leaves_behind_does_not_part_a_call_from_its_result() -> None:
    mixed = Message(Role.USER, [result_part("orphan"), Part(text="look")], "mixed")
    history = [USER, calls("c", "x"), mixed, results("r", "x"), ANSWER]

    assert ids(repair_history(history)) == ["u", "c", "r", "mixed", "m"]


def test_what_an_orphan_leaves_behind_ends_the_calls_before_it() -> None:
    mixed = Message(Role.USER, [result_part("orphan"), Part(text="look")], "mixed")

    repaired = repair_history([USER, calls("c", "x"), mixed])
    assert ids(repaired) == ["u", "c", "repair-c", "mixed"]


def test_repair_changes_only_calls_and_results() -> None:
    history = [ANSWER, USER, Message(Role.MODEL, [], "empty")]

    assert repair_history(history) == history


# --- any history ---

ANY_BROKEN = settings(deadline=None, max_examples=120)


@ANY_BROKEN
@given(broken_histories())
def test_every_call_has_its_result_directly_behind_it_afterwards(history: list[Message]) -> None:
    assert broken_call_rules(repair_history(history)) == []


@ANY_BROKEN
@given(broken_histories())
def test_no_model_message_is_lost(history: list[Message]) -> None:
    def models(messages: list[Message]) -> list[Message]:
        return [message for message in messages if message.role is Role.MODEL]

    assert models(repair_history(history)) == models(history)


@ANY_BROKEN
@given(broken_histories())
def test_no_other_rule_is_broken_and_nothing_but_results_changes(history: list[Message]) -> None:
    repaired = repair_history(history)

    assert {each.invariant for each in check_history(repaired)} <= {
        each.invariant for each in check_history(history)
    }
    kept = {id(message) for message in repaired}
    for message in history:
        assert id(message) in kept or message.function_responses


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
    if broken_call_rules(history):
        return
    repaired = repair_history(history)

    assert len(repaired) == len(history)
    assert all(new is old for new, old in zip(repaired, history, strict=True))
