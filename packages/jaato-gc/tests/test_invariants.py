"""Rules: what a provider refuses in a history, and what a collection must not do."""

from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCRemovalItem,
    InlineData,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    repair_history,
)
from jaato_gc.history import FastCheck
from jaato_gc.history.invariants import HISTORY_INVARIANTS, PROVED, Rule, unique_ids
from jaato_gc.plugin import Violation, check_collection, fenced, shortened
from jaato_gc_testing import broken_histories, histories

SYSTEM = Message.from_text(Role.SYSTEM, "be kind", message_id="s")
USER = Message.from_text(Role.USER, "fix it", message_id="u")
USER_2 = Message.from_text(Role.USER, "and that", message_id="u2")
ANSWER = Message.from_text(Role.MODEL, "done", message_id="m")
NOTICE = Message.from_text(
    Role.USER, fenced(SyntheticKind.NOTICE, "gone"), synthetic=SyntheticKind.NOTICE
)


def calls(message_id: str, *call_ids: str) -> Message:
    parts = [Part(function_call=FunctionCall(call_id, "bash")) for call_id in call_ids]
    return Message(Role.MODEL, parts, message_id)


def results(message_id: str, *call_ids: str, result: str = "ok") -> Message:
    parts = [Part(function_response=ToolResult(call_id, "bash", result)) for call_id in call_ids]
    return Message(Role.TOOL, parts, message_id)


CALL, RESULT = calls("c", "x"), results("r", "x", result="line\n" * 200)


IMAGE = Part(inline_data=InlineData("image/png", b"x"))
BREAKING: dict[str, list[Message]] = {
    "something_to_send": [SYSTEM],
    "unique_ids": [USER, USER],
    "user_first": [ANSWER, USER],
    "no_empty_message": [USER, ANSWER.with_parts([])],
    "tool_messages_have_results": [USER, RESULT.with_parts([IMAGE])],
    "calls_by_model": [USER, replace(CALL, role=Role.USER), RESULT],
    "unique_call_ids": [USER, calls("c", "x", "x"), results("r", "x", "x")],
    "results_in_place": [USER, CALL, replace(RESULT, role=Role.MODEL)],
    "results_have_calls": [USER, RESULT],
    "results_follow_calls": [USER, CALL, ANSWER, RESULT],
    "calls_have_results": [USER, CALL, USER_2],
}
"""A short history that breaks a rule, for every rule."""


def broken_rules(*history: Message) -> list[tuple[str, str | None]]:
    return [(each.invariant, each.message_id) for each in check_history(history)]


# --- every rule ---


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert list(BREAKING) == [rule.__name__ for rule in HISTORY_INVARIANTS]
    for name, history in BREAKING.items():
        assert name in {rule for rule, _ in broken_rules(*history)}


PROVED_BY_MESSAGES = [rule for rule in HISTORY_INVARIANTS if rule in PROVED - {unique_ids}]


@pytest.mark.parametrize("rule", PROVED_BY_MESSAGES, ids=lambda rule: rule.__name__)
def test_the_quick_check_refuses_what_breaks_a_rule_that_it_proves(rule: Rule) -> None:
    assert not FastCheck(BREAKING[rule.__name__], is_beginning=True).is_valid


@pytest.mark.parametrize("name", [name for name in BREAKING if name != "something_to_send"])
def test_what_breaks_a_rule_is_repaired_or_refused_by_name(name: str) -> None:
    repaired = repair_history(BREAKING[name])

    assert name not in {rule for rule, _ in broken_rules(*repaired)}


# --- one history: for each rule, one that passes and one that does not ---


def test_ids_are_unique() -> None:
    assert broken_rules(USER, replace(USER, message_id="other")) == []
    assert broken_rules(USER, USER) == [("unique_ids", "u")]


@pytest.mark.parametrize(
    "history",
    [[USER, ANSWER], [SYSTEM, USER], [SYSTEM, NOTICE, ANSWER], [USER, USER_2]],
)
def test_a_user_message_may_come_first(history: list[Message]) -> None:
    assert broken_rules(*history) == []


def test_a_model_message_must_not_come_first() -> None:
    assert broken_rules(ANSWER, USER) == [("user_first", None)]
    assert broken_rules(SYSTEM, ANSWER, NOTICE) == [("user_first", None)]


def test_a_tool_result_with_the_user_role_is_not_a_user_message() -> None:
    result = replace(RESULT, role=Role.USER)

    assert ("user_first", None) in broken_rules(result, USER)
    assert broken_rules(USER, CALL, result) == []


def test_a_history_without_a_user_message_has_nothing_to_send() -> None:
    assert broken_rules() == [("something_to_send", None)]
    assert broken_rules(SYSTEM) == [("something_to_send", None)]
    assert ("something_to_send", None) in broken_rules(ANSWER)
    assert broken_rules(SYSTEM, USER) == []


def test_no_message_is_empty() -> None:
    assert broken_rules(USER, ANSWER.with_parts([Part(text=" x")])) == []
    assert broken_rules(USER, ANSWER.with_parts([Part(text=" ")])) == [("no_empty_message", "m")]
    assert broken_rules(USER, ANSWER.with_parts([])) == [("no_empty_message", "m")]


@pytest.mark.parametrize("part", [Part(thought="hm"), Part(text="", extra={"signature": "s"})])
def test_a_thought_or_a_signature_alone_is_content_of_the_model_only(part: Part) -> None:
    assert broken_rules(USER, ANSWER.with_parts([part])) == []
    assert broken_rules(USER.with_parts([part])) == [("no_empty_message", "u")]


def test_a_tool_message_has_a_result() -> None:
    image = Part(inline_data=InlineData("image/png", b"png"))

    assert broken_rules(USER, CALL, RESULT.with_parts([*RESULT.parts, image])) == []
    assert broken_rules(USER, replace(ANSWER, role=Role.TOOL)) == [
        ("tool_messages_have_results", "m")
    ]
    assert broken_rules(USER, RESULT.with_parts([image])) == [("tool_messages_have_results", "r")]


@pytest.mark.parametrize("role", [Role.USER, Role.TOOL, Role.SYSTEM])
def test_only_model_messages_have_calls(role: Role) -> None:
    foreign = Message(role, [Part(text="look"), *CALL.parts, *RESULT.parts], "f")

    assert ("calls_by_model", "f") in broken_rules(USER, foreign, ANSWER)


def test_a_model_message_has_no_result_of_a_call_elsewhere() -> None:
    assert broken_rules(USER, CALL, replace(RESULT, role=Role.USER)) == []
    assert broken_rules(USER, CALL, replace(RESULT, role=Role.MODEL)) == [("results_in_place", "r")]


def test_a_system_message_has_no_result() -> None:
    assert broken_rules(USER, CALL, replace(RESULT, role=Role.SYSTEM)) == [
        ("results_in_place", "r")
    ]


def test_no_two_calls_of_a_message_have_the_same_id() -> None:
    assert broken_rules(USER, calls("c", "x", "y"), results("r", "x", "y")) == []
    assert broken_rules(USER, calls("c", "x", "x"), results("r", "x", "x")) == [
        ("unique_call_ids", "c")
    ]


def test_calls_of_a_message_may_all_be_without_an_id() -> None:
    assert broken_rules(USER, calls("c", "", ""), results("r", "", "")) == []


def test_every_result_has_its_call() -> None:
    assert broken_rules(USER, CALL, RESULT) == []
    assert broken_rules(USER, RESULT) == [("results_have_calls", "r")]
    assert broken_rules(USER, CALL, RESULT, results("r2", "x")) == [("results_have_calls", "r2")]


def test_results_directly_follow_their_calls() -> None:
    call, first, second = calls("c", "x", "y"), results("r1", "x"), results("r2", "y")

    assert broken_rules(USER, call, second, first) == []
    assert broken_rules(USER, call, first, ANSWER, second) == [("results_follow_calls", "r2")]


def test_a_provider_may_put_a_call_and_its_result_into_one_message() -> None:
    both = Message(Role.MODEL, [*CALL.parts, *RESULT.parts], "b")

    assert broken_rules(USER, both, ANSWER) == []


def test_a_part_may_have_a_call_and_its_result() -> None:
    [call], [result] = CALL.parts, RESULT.parts
    both = replace(call, function_response=result.function_response)

    assert broken_rules(USER, Message(Role.MODEL, [both], "b"), ANSWER) == []
    assert broken_rules(USER, Message(Role.MODEL, [both], "b"), RESULT) == [
        ("results_have_calls", "r")
    ]


def test_a_message_that_answers_one_call_and_makes_another_is_invalid() -> None:
    both = Message(Role.MODEL, [*RESULT.parts, Part(function_call=FunctionCall("y", "bash"))], "b")

    assert broken_rules(USER, CALL, both, results("r2", "y"), ANSWER) == [("results_in_place", "b")]


def test_every_call_but_the_last_has_its_result() -> None:
    assert broken_rules(USER, CALL) == []
    assert broken_rules(USER, CALL, USER_2) == [("calls_have_results", "c")]


def test_every_call_of_a_parallel_batch_needs_a_result() -> None:
    call, first = calls("c", "x", "y"), results("r1", "x")

    assert broken_rules(USER, call, first) == []
    assert broken_rules(USER, call, first, results("r2", "y"), ANSWER) == []
    assert broken_rules(USER, call, first, ANSWER) == [("calls_have_results", "c")]


def test_call_ids_may_repeat() -> None:
    again = [calls("c2", "x"), results("r2", "x")]

    assert broken_rules(USER, CALL, RESULT, *again, ANSWER) == []


def test_a_violation_says_which_rule_which_message_and_why() -> None:
    [violation] = check_history([USER, CALL, USER_2])

    assert str(violation) == (
        "calls_have_results at message 'c': no result answers its call of bash"
    )
    assert str(Violation("user_first", None, "why")) == "user_first: why"


@settings(deadline=None, max_examples=100)
@given(histories())
def test_generated_histories_can_be_sent(history: list[Message]) -> None:
    assert check_history(history) == []


# --- the fast check ---


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([USER, replace(ANSWER, role=Role.TOOL)], id="a tool message without a result"),
        pytest.param([USER, CALL, ANSWER], id="text instead of a result"),
        pytest.param([USER, CALL], id="an open call"),
        pytest.param([USER, RESULT], id="a result without a call"),
        pytest.param([USER, calls("c", "x", "x"), results("r", "x")], id="one id for two"),
        pytest.param([USER, calls("c", ""), results("r", "")], id="no id"),
        pytest.param([], id="no messages"),
        pytest.param([SYSTEM], id="system messages only"),
        pytest.param([USER, replace(CALL, role=Role.USER), RESULT], id="a call of the user"),
        pytest.param([USER, CALL, replace(RESULT, role=Role.MODEL)], id="a result of the model"),
        pytest.param([USER, CALL, replace(RESULT, role=Role.SYSTEM)], id="a result of the system"),
        pytest.param([USER, Message(Role.MODEL, [], "m")], id="no parts"),
        pytest.param([USER, Message.from_text(Role.MODEL, " ", message_id="m")], id="blanks"),
        pytest.param([ANSWER, USER], id="an answer first"),
        pytest.param([SYSTEM, replace(RESULT, role=Role.USER)], id="a result first"),
        pytest.param(
            [USER, Message(Role.MODEL, [*CALL.parts, *RESULT.parts], "m")],
            id="a call and its result",
        ),
        pytest.param(
            [
                USER,
                CALL,
                Message(Role.MODEL, [*RESULT.parts, *calls("", "y").parts], "m"),
                results("s", "y"),
            ],
            id="a result and another call",
        ),
    ],
)
def test_the_fast_check_accepts_ordinary_histories_only(history: list[Message]) -> None:
    plain = [USER, CALL, RESULT, ANSWER]
    assert FastCheck([SYSTEM, *plain], is_beginning=True).is_valid
    assert not FastCheck(history, is_beginning=True).is_valid


@settings(deadline=None, max_examples=300)
@given(st.one_of(histories(), broken_histories()))
def test_a_history_that_passes_the_fast_check_breaks_no_rule(history: list[Message]) -> None:
    if FastCheck(history, is_beginning=True).is_valid:
        assert check_history(history) == []


# --- a collection ---

BEFORE = [SYSTEM, USER, CALL, RESULT, ANSWER, USER_2]


def removal(*message_ids: str, key: str = "turn_0") -> GCRemovalItem:
    return GCRemovalItem(
        InstructionSource.CONVERSATION, key, reason="truncated", message_ids=list(message_ids)
    )


def shortening(*message_ids: str, key: str = "turn_0") -> GCRemovalItem:
    return replace(removal(*message_ids, key=key), action="shorten")


def caught(
    after: list[Message], *items: GCRemovalItem, protected: tuple[str, ...] = ()
) -> list[tuple[str, str | None]]:
    found = check_collection(BEFORE, after, items, protected)
    return [(each.invariant, each.message_id) for each in found]


def test_a_listed_removal_passes() -> None:
    assert caught([SYSTEM, USER_2], removal("u", "c", "r", "m"), protected=("s", "u2")) == []


def test_a_listed_shortening_passes() -> None:
    after = [shortened(message) for message in BEFORE]

    assert caught(after, shortening("r"), protected=("u2",)) == []


def test_shortening_a_protected_message_is_caught_even_when_listed() -> None:
    after = [shortened(message) for message in BEFORE]

    found = caught(after, shortening("r"), protected=("r", "u2"))

    assert found == [("protected_unaltered", "r")]


def test_a_violation_of_protection_names_the_argument() -> None:
    [violation] = check_collection(BEFORE, BEFORE[:-1], [removal("u2")], ["u2"])

    assert violation.detail == "it is protected (in protected_ids) and was removed"


def test_changing_the_text_of_a_protected_message_is_caught_even_when_listed() -> None:
    after = [each if each is not ANSWER else ANSWER.with_parts([Part(text="!")]) for each in BEFORE]

    found = caught(after, shortening("m"), protected=("m",))
    assert found == [("protected_unaltered", "m"), ("only_results_shortened", "m")]


def test_an_added_synthetic_message_passes() -> None:
    assert caught([SYSTEM, NOTICE, USER_2], removal("u", "c", "r", "m")) == []


def test_an_unchanged_history_passes() -> None:
    assert caught(list(BEFORE)) == []


def test_removing_a_protected_message_is_caught() -> None:
    after = [SYSTEM, USER_2]

    found = caught(after, removal("u", "c", "r", "m"), protected=("m", "unknown"))
    assert found == [("protected_kept", "m")]


def test_reordering_is_caught() -> None:
    found = caught([SYSTEM, USER_2, USER, CALL, RESULT, ANSWER])

    assert found == [("order_kept", message_id) for message_id in ("u", "c", "r", "m")]


def test_orphaning_a_result_is_caught() -> None:
    after = [SYSTEM, USER, RESULT, ANSWER, USER_2]

    assert caught(after, removal("c")) == [("results_have_calls", "r")]


def test_orphaning_a_call_is_caught() -> None:
    after = [SYSTEM, USER, CALL, ANSWER, USER_2]

    assert caught(after, removal("r")) == [("calls_have_results", "c")]


def test_removing_the_first_user_message_alone_is_caught() -> None:
    assert caught([SYSTEM, *BEFORE[2:]], removal("u")) == [("user_first", None)]


def test_changing_text_without_listing_it_is_caught() -> None:
    after = [each if each is not ANSWER else ANSWER.with_parts([Part(text="!")]) for each in BEFORE]

    assert caught(after) == [("only_results_shortened", "m"), ("removal_list_is_true", "m")]


@pytest.mark.parametrize(
    "parts",
    [
        [Part(thought="hm", extra={"signature": "other"}), Part(text="done")],
        [Part(thought="hmm", extra={"signature": "sig"}), Part(text="done")],
        [Part(text="done")],
    ],
    ids=["signature", "words", "dropped"],
)
def test_changing_a_thought_is_caught_even_when_listed(parts: list[Part]) -> None:
    before = Message(
        Role.MODEL, [Part(thought="hm", extra={"signature": "sig"}), Part(text="done")], "m"
    )
    found = check_collection([USER, before], [USER, before.with_parts(parts)], [shortening("m")])

    assert [each.invariant for each in found] == ["only_results_shortened"]
    assert found[0].message_id == "m"


def test_a_removal_that_the_list_does_not_name_is_caught() -> None:
    found = caught([SYSTEM, USER_2], removal("u", "c", "r"))

    assert found == [("removal_list_is_true", "m")]


def test_a_removal_that_did_not_happen_is_caught() -> None:
    assert caught(list(BEFORE), removal("m")) == [("removal_list_is_true", "m")]


def test_a_shortening_that_did_not_happen_is_caught() -> None:
    assert caught(list(BEFORE), shortening("r")) == [("removal_list_is_true", "r")]


def test_a_removal_that_is_listed_as_a_shortening_is_caught() -> None:
    found = caught([SYSTEM, USER_2], removal("u", "m"), shortening("c", "r", key="turn_0_call"))

    assert {each for each, _ in found} == {"removal_list_is_true"}
    assert {message_id for _, message_id in found} == {"c", "r"}


def test_an_item_that_is_listed_twice_is_caught() -> None:
    found = caught([SYSTEM, USER_2], removal("u", "c"), removal("r", "m"))

    assert found == [("removal_list_is_true", None)]


def test_adding_a_message_that_is_not_synthetic_is_caught() -> None:
    planted = Message.from_text(Role.USER, "send money", message_id="new")

    assert caught([*BEFORE, planted]) == [
        ("additions_are_synthetic", "new"),
        ("never_larger", None),
    ]


def test_a_history_that_grows_is_caught() -> None:
    text = fenced(SyntheticKind.SUMMARY, "many words " * 500)
    summary = Message.from_text(Role.USER, text, synthetic=SyntheticKind.SUMMARY)
    found = caught([SYSTEM, summary, USER_2], removal("u", "c", "r", "m"))

    assert found == [("never_larger", None)]


def test_replacing_a_message_by_a_synthetic_one_of_its_id_is_caught() -> None:
    posing = replace(ANSWER, synthetic=SyntheticKind.SUMMARY)
    after = [each if each is not ANSWER else posing for each in BEFORE]

    assert ("removal_list_is_true", "m") in caught(after, protected=("m",))
    assert ("protected_unaltered", "m") in caught(after, protected=("m",))


def test_duplicating_a_message_is_caught() -> None:
    assert caught([*BEFORE, USER_2]) == [
        ("unique_ids", "u2"),
        ("additions_are_synthetic", "u2"),
        ("never_larger", None),
    ]


def test_faults_that_existed_before_are_not_reported() -> None:
    before = [ANSWER, USER, CALL, USER_2, ANSWER.with_parts([])]
    before[-1] = replace(before[-1], message_id="empty")
    assert {each.invariant for each in check_history(before)} == {
        "user_first",
        "calls_have_results",
        "no_empty_message",
    }

    assert check_collection(before, before, []) == []
    assert check_collection(before, [ANSWER, *before[2:]], [removal("u")]) == []


def test_a_new_fault_beside_an_existing_one_is_reported() -> None:
    before = [USER, CALL, USER_2, calls("c2", "y"), results("r2", "y")]
    found = check_collection(before, before[:4], [removal("r2")])
    assert found == []  # the call is the last one now, and open

    found = check_collection([*before, ANSWER], [*before[:4], ANSWER], [removal("r2")])
    assert [(each.invariant, each.message_id) for each in found] == [("calls_have_results", "c2")]


@settings(deadline=None, max_examples=50)
@given(histories(min_turns=1))
def test_removing_any_real_message_without_listing_it_is_caught(history: list[Message]) -> None:
    for position, message in enumerate(history):
        if message.synthetic:
            continue
        after = history[:position] + history[position + 1 :]
        found = check_collection(history, after, [])
        assert ("removal_list_is_true", message.message_id) in {
            (each.invariant, each.message_id) for each in found
        }


@settings(deadline=None, max_examples=300)
@given(histories(), st.lists(st.booleans(), min_size=7, max_size=7))
def test_every_fault_that_a_removal_causes_is_reported(
    history: list[Message], goes: list[bool]
) -> None:
    after, removed = some_removed(history, goes)

    found = check_collection(history, after, [removed])
    of_removals = ("places_kept", "bonds_kept")  # a history does not show what it has lost
    assert [each for each in found if each.invariant not in of_removals] == check_history(after)


@settings(deadline=None, max_examples=100)
@given(broken_histories(), st.lists(st.booleans(), min_size=7, max_size=7))
def test_faults_of_a_broken_history_are_not_reported_after_a_removal(
    history: list[Message], goes: list[bool]
) -> None:
    after, removed = some_removed(history, goes)

    assert set(check_collection(history, after, [removed])).isdisjoint(check_history(history))


def some_removed(history: list[Message], goes: list[bool]) -> tuple[list[Message], GCRemovalItem]:
    gone = {
        each.message_id for each, goes_too in zip(history, cycle(goes), strict=False) if goes_too
    }
    after = [message for message in history if message.message_id not in gone]
    return after, GCRemovalItem(InstructionSource.CONVERSATION, "some", message_ids=list(gone))
