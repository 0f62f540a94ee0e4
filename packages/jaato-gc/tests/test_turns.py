"""How a history falls into turns and groups, and which of them a collection must leave."""

import operator
import pickle
from collections.abc import Iterable
from itertools import compress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    Group,
    Hold,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    lay_out,
    protect,
    split_into_turns,
)
from jaato_gc._glance import Glance
from jaato_gc._turns import LaidOutHistory, lay_out_more, which_stay
from jaato_gc_testing import broken_histories, histories

NOTHING_RECENT = GCConfig(preserve_recent_turns=0)


def user(message_id: str, policy: GCPolicy | None = None) -> Message:
    return Message.from_text(Role.USER, "question", message_id=message_id, policy=policy)


def model(message_id: str, policy: GCPolicy | None = None) -> Message:
    return Message.from_text(Role.MODEL, "answer", message_id=message_id, policy=policy)


def calls(message_id: str, *call_ids: str | None, name: str = "bash") -> Message:
    parts = [Part(function_call=FunctionCall(call_id, name)) for call_id in call_ids]
    return Message(Role.MODEL, parts, message_id)


def results(
    message_id: str, *call_ids: str | None, name: str = "bash", policy: GCPolicy | None = None
) -> Message:
    parts = [Part(function_response=ToolResult(call_id, name, "ok")) for call_id in call_ids]
    return Message(Role.TOOL, parts, message_id, policy=policy)


def ids_of(groups: Iterable[Group]) -> list[list[str]]:
    return [[message.message_id for message in group.messages] for group in groups]


def turns_of(*history: Message) -> list[list[list[str]]]:
    return [ids_of(turn.groups) for turn in split_into_turns(history)]


def holds(
    history: list[Message], config: GCConfig, budget: InstructionBudget | None = None
) -> dict[str, Hold | None]:
    layout = lay_out(history)
    protect(layout, config, budget)
    return {m.message_id: group.hold for group in layout.groups for m in group.messages}


# --- turns and groups ---


def test_a_turn_is_a_user_message_and_all_up_to_the_next() -> None:
    turns = split_into_turns([user("u0"), model("m0"), user("u1"), user("u2"), model("m2")])

    assert [ids_of(turn.groups) for turn in turns] == [
        [["u0"], ["m0"]],
        [["u1"]],
        [["u2"], ["m2"]],
    ]
    assert [turn.key for turn in turns] == ["turn_0", "turn_1", "turn_2"]
    assert [message.message_id for message in turns[2].messages] == ["u2", "m2"]


def test_an_empty_history_has_no_turns() -> None:
    assert split_into_turns([]) == []


def test_what_stands_before_the_first_user_message_belongs_to_turn_0() -> None:
    assert turns_of(model("m"), user("u0"), user("u1")) == [[["m"], ["u0"]], [["u1"]]]


def test_system_and_synthetic_messages_belong_to_no_turn() -> None:
    history = [
        Message.from_text(Role.SYSTEM, "be kind", message_id="s"),
        user("u0"),
        Message.from_text(Role.USER, "gone", message_id="n", synthetic=SyntheticKind.NOTICE),
        model("m0"),
    ]

    assert turns_of(*history) == [[["u0"], ["m0"]]]
    assert ids_of(lay_out(history).groups) == [["s"], ["u0"], ["n"], ["m0"]]


def test_results_filed_under_the_user_role_open_no_turn() -> None:
    answer = Message(Role.USER, [Part(function_response=ToolResult("c", "bash", "ok"))], "r")

    assert turns_of(user("u"), calls("c", "c"), answer) == [[["u"], ["c", "r"]]]


@pytest.mark.parametrize(
    "answers",
    [
        [results("r1", "a", "b", "c")],
        [results("r1", "a"), results("r2", "b"), results("r3", "c")],
        [results("r1", "c", "a"), results("r2", "b")],
    ],
    ids=["one message", "one each", "mixed"],
)
def test_parallel_calls_and_their_results_are_one_group(answers: list[Message]) -> None:
    [turn] = split_into_turns([user("u"), calls("c", "a", "b", "c"), *answers, model("m")])

    assert ids_of(turn.groups) == [["u"], ["c", *(each.message_id for each in answers)], ["m"]]
    assert [group.is_call for group in turn.groups] == [False, True, False]


def test_repeated_call_ids_pair_with_the_latest_open_call() -> None:
    history = [
        user("u"),
        calls("c1", "x"),
        results("r1", "x"),
        calls("c2", "x"),
        results("r2", "x"),
    ]

    assert turns_of(*history) == [[["u"], ["c1", "r1"], ["c2", "r2"]]]


def test_a_result_does_not_go_to_an_older_call_of_its_id_that_nobody_answered() -> None:
    history = [user("u"), calls("dangling", "x"), calls("c", "x"), results("r", "x")]

    assert turns_of(*history) == [[["u"], ["dangling"], ["c", "r"]]]


def test_calls_without_ids_pair_by_name() -> None:
    history = [
        user("u"),
        calls("c1", None, name="read"),
        results("r1", None, name="read"),
        calls("c2", None, name="bash"),
        results("r2", None, name="bash"),
    ]

    assert turns_of(*history) == [[["u"], ["c1", "r1"], ["c2", "r2"]]]


def test_only_the_last_unanswered_call_is_open() -> None:
    layout = lay_out([user("u"), calls("dangling", "a"), user("v"), calls("last", "b")])

    assert {group.messages[0].message_id for group in layout.groups if group.is_open} == {"last"}


def test_a_batch_that_is_answered_in_part_is_open() -> None:
    layout = lay_out([user("u"), calls("c", "a", "b"), results("r", "a")])

    assert ids_of(group for group in layout.groups if group.is_open) == [["c", "r"]]


def test_a_history_that_knows_its_layout_is_laid_out_anew_once_it_is_changed() -> None:
    history = [user("u"), calls("c", "a"), results("r", "a"), user("v")]
    layout = lay_out(history)
    known = LaidOutHistory(history, layout)

    again = lay_out(known)
    assert again == layout
    assert again.groups[0] is layout.groups[0]
    again.groups.clear()
    assert lay_out(known) == layout == lay_out(history)
    assert type(pickle.loads(pickle.dumps(known))) is list

    del known[1:3]
    assert lay_out(known) == lay_out(list(known))


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(histories(), broken_histories()),
    st.one_of(histories(max_turns=2), broken_histories()),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_what_has_become_of_a_history_is_laid_out_as_if_for_the_first_time(
    before: list[Message], more: list[Message], goes: list[bool]
) -> None:
    old = lay_out(before)
    assume(old.is_settled)
    protect(old, GCConfig(preserve_recent_turns=1))
    gone = [
        message
        for number, group in enumerate(old.groups)
        if goes[number % len(goes)]
        for message in group.messages
    ]
    ids = set(map(id, gone))
    after = [message for message in before if id(message) not in ids] + more

    stay, seen = which_stay(old.groups, gone), Glance(more)
    assert stay is not None
    assume(seen.is_in_order)
    left = list(compress(old.groups, stay))
    again, anew = lay_out_more(left, more, bytes(seen.carrying)), lay_out(after)

    for layout in (again, anew):
        protect(layout, GCConfig(preserve_recent_turns=1))
        layout.protected_under = None
    assert again == anew


def test_groups_that_are_still_there_are_used_again() -> None:
    history = [user("u"), calls("c", "a"), results("r", "a"), user("v"), model("m")]
    old = lay_out(history)
    groups = list(old.groups)

    stay = which_stay(old.groups, history[:3])
    assert stay == [False, False, True, True]
    again = lay_out_more(list(compress(old.groups, stay)), [user("w")], b"\0")

    assert all(map(operator.is_, again.groups, groups[2:]))
    assert ids_of(again.groups) == [["v"], ["m"], ["w"]]


@pytest.mark.parametrize("torn", [1, 2])
def test_a_layout_can_t_go_on_without_a_part_of_a_group(torn: int) -> None:
    history = [user("u"), calls("c", "a"), results("r", "a")]

    assert which_stay(lay_out(history).groups, [history[torn]]) is None


@settings(deadline=None, max_examples=100)
@given(st.one_of(histories(), broken_histories()))
def test_every_message_is_in_one_group_and_every_conversation_message_in_one_turn(
    history: list[Message],
) -> None:
    layout = lay_out(history)

    grouped = [id(message) for group in layout.groups for message in group.messages]
    assert sorted(grouped) == sorted(map(id, history))
    in_turns = sorted(m.message_id for turn in layout.turns for m in turn.messages)
    spoken = [m for m in history if m.role is not Role.SYSTEM and not m.synthetic]
    assert in_turns == sorted(message.message_id for message in spoken)
    assert [turn.index for turn in layout.turns] == list(range(len(layout.turns)))


# --- protection ---


def test_nothing_is_held_without_a_reason() -> None:
    assert set(holds([user("u0"), model("m0"), user("u1")], NOTHING_RECENT).values()) == {None}


def test_the_last_turns_are_recent() -> None:
    history = [user("u0"), model("m0"), user("u1"), user("u2"), model("m2")]

    assert holds(history, GCConfig(preserve_recent_turns=2)) == {
        "u0": None,
        "m0": None,
        "u1": Hold.RECENT,
        "u2": Hold.RECENT,
        "m2": Hold.RECENT,
    }


def test_more_recent_turns_than_there_are_hold_everything() -> None:
    assert set(holds([user("u0"), user("u1")], GCConfig()).values()) == {Hold.RECENT}


def test_a_turn_pinned_by_index_is_held_whole() -> None:
    config = GCConfig(preserve_recent_turns=0, pinned_turn_indices=[1, 99])
    history = [user("u0"), user("u1"), calls("c1", "x"), results("r1", "x"), user("u2")]

    assert holds(history, config) == {
        "u0": None,
        "u1": Hold.PINNED,
        "c1": Hold.PINNED,
        "r1": Hold.PINNED,
        "u2": None,
    }


def test_a_message_id_pinned_in_the_budget_is_held() -> None:
    budget = InstructionBudget()
    budget.pinned_message_ids.add("u1")

    assert holds([user("u0"), user("u1")], NOTHING_RECENT, budget) == {
        "u0": None,
        "u1": Hold.PINNED,
    }


def test_a_message_that_the_host_locked_is_held() -> None:
    assert holds([user("u0", GCPolicy.LOCKED), user("u1")], NOTHING_RECENT) == {
        "u0": Hold.LOCKED,
        "u1": None,
    }


def test_system_messages_are_locked() -> None:
    system = Message.from_text(Role.SYSTEM, "be kind", message_id="s")

    assert holds([system], NOTHING_RECENT) == {"s": Hold.LOCKED}


def locked_in_budget(*message_ids: str) -> InstructionBudget:
    budget = InstructionBudget()
    budget.add_child(
        InstructionSource.CONVERSATION, "kept", 1, GCPolicy.LOCKED, message_ids=message_ids
    )
    return budget


def test_a_message_booked_under_a_locked_entry_is_held() -> None:
    assert holds([user("u0"), user("u1")], NOTHING_RECENT, locked_in_budget("u0")) == {
        "u0": Hold.LOCKED,
        "u1": None,
    }


def test_a_lock_above_an_entry_holds_what_is_below() -> None:
    budget = locked_in_budget()
    budget.add_child(
        InstructionSource.CONVERSATION,
        "below",
        1,
        GCPolicy.EPHEMERAL,
        message_ids=["u0"],
        parent_key="kept",
    )

    assert holds([user("u0")], NOTHING_RECENT, budget) == {"u0": Hold.LOCKED}


def test_the_hosts_word_on_a_message_prevails_over_the_budget() -> None:
    history = [user("u0", GCPolicy.EPHEMERAL)]

    assert holds(history, NOTHING_RECENT, locked_in_budget("u0")) == {"u0": None}


@pytest.mark.parametrize("policy", [GCPolicy.PRESERVABLE, GCPolicy.PARTIAL, GCPolicy.EPHEMERAL])
def test_no_other_policy_holds_a_message(policy: GCPolicy) -> None:
    assert holds([user("u0", policy)], NOTHING_RECENT) == {"u0": None}


def test_one_protected_member_holds_its_group_and_not_its_turn() -> None:
    history = [
        user("u0", GCPolicy.LOCKED),
        user("u1"),
        calls("c1", "a", "b"),
        results("r1", "a"),
        results("r2", "b", policy=GCPolicy.LOCKED),
        model("m1"),
    ]

    assert holds(history, NOTHING_RECENT) == {
        "u0": Hold.LOCKED,
        "u1": None,
        "c1": Hold.LOCKED,
        "r1": Hold.LOCKED,
        "r2": Hold.LOCKED,
        "m1": None,
    }


def test_an_open_call_is_held_with_the_results_it_has() -> None:
    history = [user("u0"), user("u1"), calls("c", "a", "b"), results("r", "a")]

    assert holds(history, NOTHING_RECENT) == {
        "u0": None,
        "u1": Hold.FIRST_USER,
        "c": Hold.OPEN_CALL,
        "r": Hold.OPEN_CALL,
    }


def test_the_strongest_reason_is_named() -> None:
    budget = InstructionBudget()
    budget.pinned_message_ids |= {"u0", "u1"}
    history = [user("u0", GCPolicy.LOCKED), user("u1")]

    assert holds(history, GCConfig(), budget) == {"u0": Hold.LOCKED, "u1": Hold.PINNED}


def test_a_user_message_stays_before_the_first_thing_that_stays() -> None:
    history = [user("u0"), user("u1"), model("m1", GCPolicy.LOCKED), model("m1b"), user("u2")]

    assert holds(history, NOTHING_RECENT) == {
        "u0": None,
        "u1": Hold.FIRST_USER,
        "m1": Hold.LOCKED,
        "m1b": None,
        "u2": None,
    }


def test_later_turns_need_no_user_message_of_their_own() -> None:
    history = [user("u0", GCPolicy.LOCKED), user("u1"), model("m1", GCPolicy.LOCKED)]

    assert holds(history, NOTHING_RECENT)["u1"] is None


@settings(deadline=None, max_examples=100)
@given(st.one_of(histories(), broken_histories()), st.integers(0, 4), st.data())
def test_protection_closes_over_groups_and_covers_what_was_asked_for(
    history: list[Message], recent: int, data: st.DataObject
) -> None:
    budget = InstructionBudget()
    ids = [message.message_id for message in history]
    if ids:
        budget.pinned_message_ids = data.draw(st.sets(st.sampled_from(ids), max_size=3))
    layout = lay_out(history)
    protect(layout, GCConfig(preserve_recent_turns=recent), budget)

    for group in layout.groups:
        wanted = any(
            message.policy is GCPolicy.LOCKED
            or message.role is Role.SYSTEM
            or message.message_id in budget.pinned_message_ids
            for message in group.messages
        )
        assert group.hold or not (wanted or group.is_open)
    for turn in layout.turns[len(layout.turns) - recent :] if recent else []:
        assert all(group.hold for group in turn.groups)
