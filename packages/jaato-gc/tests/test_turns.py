"""Turns, groups and protection: which messages stay or go together, and which must stay."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    check_history,
    count_tokens,
    repair_history,
    split_into_turns,
)
from jaato_gc.plugin import (
    Group,
    Hold,
    ensure_tool_call_integrity,
    flatten_turns,
    get_preserved_indices,
    lay_out,
    protect,
)
from jaato_gc_testing import broken_histories, histories

NOTHING_RECENT = GCConfig(preserve_recent_turns=0, preserve_recent_groups=0)
"""Only the running turn is recent."""


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
    layout = protect(lay_out(history), config, budget)
    return {m.message_id: group.hold for group in layout.groups for m in group.messages}


# --- turns and groups ---


def test_a_turn_is_a_user_message_and_everything_up_to_the_next_one() -> None:
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


def test_messages_before_the_first_user_message_belong_to_turn_0() -> None:
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


def test_tool_results_with_the_user_role_do_not_open_a_turn() -> None:
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


def test_a_result_is_not_paired_with_an_older_unanswered_call_of_the_same_id() -> None:
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


def test_a_partly_answered_batch_of_calls_is_open() -> None:
    layout = lay_out([user("u"), calls("c", "a", "b"), results("r", "a")])

    assert ids_of(group for group in layout.groups if group.is_open) == [["c", "r"]]


def test_a_call_of_a_system_message_and_its_result_are_in_a_turn() -> None:
    """Such a history is invalid, but a collection must not make it worse."""
    call = Message(Role.SYSTEM, [Part(function_call=FunctionCall("x", "look"))], "s")
    result = Message(Role.TOOL, [Part(function_response=ToolResult("x", "look"))], "r")

    [first, group] = lay_out([user("u"), call, result]).groups

    assert first.opens_turn
    assert [message.message_id for message in group.messages] == ["s", "r"]
    assert not group.is_outside_turns
    assert not group.is_system


@settings(deadline=None, max_examples=100)
@given(st.one_of(histories(min_turns=0), broken_histories()))
def test_every_message_is_in_one_group_and_every_conversation_message_in_one_turn(
    history: list[Message],
) -> None:
    layout = lay_out(history)

    grouped = [id(message) for group in layout.groups for message in group.messages]
    assert sorted(grouped) == sorted(map(id, history))
    in_turns = sorted(m.message_id for turn in layout.turns for m in turn.messages)
    called = {m.message_id for group in layout.groups if group.is_call for m in group.messages}
    begin = next((at for at, m in enumerate(history) if m.role is Role.USER), len(history))
    spoken = {
        m.message_id
        for at, m in enumerate(history)
        if not m.synthetic
        if m.role is not Role.SYSTEM
        or (at > begin and (m.policy is not GCPolicy.LOCKED if m.policy else m.keeps_place))
    }
    assert in_turns == sorted(called | spoken)
    assert [turn.index for turn in layout.turns] == list(range(len(layout.turns)))


def test_a_layout_can_not_be_changed() -> None:
    layout = lay_out([user("u"), model("m")])

    with pytest.raises(AttributeError):
        layout.groups[0].hold = Hold.PINNED  # type: ignore[misc]
    with pytest.raises(AttributeError):
        layout.turns[0].groups = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        layout.turns = ()


def test_a_turn_estimates_its_tokens() -> None:
    history = [user("u0"), model("m0"), user("u1")]

    assert [turn.estimated_tokens for turn in split_into_turns(history)] == [
        count_tokens(history[:2]),
        count_tokens(history[2:]),
    ]


# --- protection ---


def test_protect_returns_a_new_layout_and_leaves_the_given_one_unchanged() -> None:
    layout = lay_out([user("u0", GCPolicy.LOCKED), model("m0"), user("u1")])
    protected = protect(layout, NOTHING_RECENT)

    assert [group.hold for group in layout.groups] == [None, None, None]
    assert [group.hold for group in protected.groups] == [Hold.LOCKED, None, Hold.NEWEST_USER]
    assert ids_of(protected.groups) == ids_of(layout.groups)
    assert [turn.groups for turn in protected.turns] == [protected.groups[:2], protected.groups[2:]]


def test_old_groups_are_not_held_without_a_reason() -> None:
    history = [user("u0"), model("m0"), calls("c0", "x"), results("r0", "x"), user("u1")]

    found = holds(history, NOTHING_RECENT)

    assert {found[each] for each in ("u0", "m0", "c0", "r0")} == {None}


def test_the_newest_user_message_is_fixed_and_only_that_one() -> None:
    history = [user("u0"), user("u1"), model("m1")]

    for recent in (0, 1, 2):
        found = holds(history, GCConfig(preserve_recent_turns=recent))
        assert found["u1"] is Hold.NEWEST_USER
        assert found["u0"] is (Hold.RECENT if recent == 2 else None)


def test_messages_without_calls_of_the_last_turns_are_recent() -> None:
    history = [user("u0"), model("m0"), user("u1"), user("u2"), model("m2")]

    assert holds(history, GCConfig(preserve_recent_turns=2)) == {
        "u0": None,
        "m0": None,
        "u1": Hold.RECENT,
        "u2": Hold.NEWEST_USER,
        "m2": Hold.RECENT,
    }


def test_the_running_turn_is_recent_even_if_no_turn_is_preserved() -> None:
    history = [user("u0"), model("m0"), user("u1"), model("m1")]

    assert holds(history, NOTHING_RECENT) == {
        "u0": None,
        "m0": None,
        "u1": Hold.NEWEST_USER,
        "m1": Hold.RECENT,
    }


def test_all_messages_without_calls_are_held_if_there_are_fewer_turns_than_preserved() -> None:
    assert holds([user("u0"), model("m0"), user("u1")], GCConfig()) == {
        "u0": Hold.RECENT,
        "m0": Hold.RECENT,
        "u1": Hold.NEWEST_USER,
    }


def one_turn_of_calls(count: int) -> list[Message]:
    """Returns a turn with a call and a comment per step: the text is beside the call."""
    history = [user("u0")]
    for step in range(count):
        call = calls(f"c{step}", f"x{step}")
        history.append(call.with_parts([Part(text="I look."), *call.parts]))
        history.append(results(f"r{step}", f"x{step}"))
    return [*history, model("m0")]


@pytest.mark.parametrize("last", [0, 1, 2, 3, 9])
def test_only_the_last_calls_of_a_recent_turn_are_held(last: int) -> None:
    found = holds(one_turn_of_calls(4), GCConfig(preserve_recent_groups=last))

    kept = {f"{who}{step}" for step in range(4)[max(0, 4 - last) :] for who in "cr"}
    assert {each for each, hold in found.items() if hold is Hold.RECENT} == {*kept, "m0"}
    assert found["u0"] is Hold.NEWEST_USER


def test_all_calls_of_recent_turns_are_held_if_turns_count() -> None:
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1)
    history = [user("u"), calls("c", "x"), results("r", "x"), *one_turn_of_calls(3)]
    layout = protect(lay_out(history), config, whole_turns=True)

    found = {each.message_id: group.hold for group in layout.groups for each in group.messages}
    assert [found.pop(each) for each in ("u", "c", "r")] == [None, None, None]
    assert found.pop("u0") is Hold.NEWEST_USER
    assert set(found.values()) == {Hold.RECENT}


def test_the_last_calls_are_held_in_old_turns_too() -> None:
    """The user message of their turn stays with them, because a history begins with one."""
    history = [user("u0"), calls("c0", "x"), results("r0", "x"), model("m0")]
    history += [user("u1"), calls("c1", "y", "z"), results("r1", "y", "z"), model("m1")]
    history += [user("u2"), model("m2")]
    config = GCConfig(preserve_recent_turns=0, preserve_recent_groups=1)

    assert holds(history, config) == {
        **dict.fromkeys(["u0", "c0", "r0", "m0", "m1"], None),
        "u1": Hold.FIRST_USER,
        "c1": Hold.RECENT,
        "r1": Hold.RECENT,
        "u2": Hold.NEWEST_USER,
        "m2": Hold.RECENT,
    }


def test_parallel_calls_are_one_of_the_last_groups() -> None:
    history = [user("u0"), calls("c0", "x"), results("r0", "x"), calls("c1", "a", "b")]
    history += [results("r1", "a"), results("r2", "b")]

    found = holds(history, GCConfig(preserve_recent_groups=1))

    assert [found[each] for each in ("c0", "r0")] == [None, None]
    assert {found[each] for each in ("c1", "r1", "r2")} == {Hold.RECENT}


def test_a_turn_pinned_by_index_is_held_whole() -> None:
    config = GCConfig(
        preserve_recent_turns=0, preserve_recent_groups=0, pinned_turn_indices=[1, 99]
    )
    history = [user("u0"), user("u1"), calls("c1", "x"), results("r1", "x"), user("u2")]

    assert holds(history, config) == {
        "u0": None,
        "u1": Hold.PINNED,
        "c1": Hold.PINNED,
        "r1": Hold.PINNED,
        "u2": Hold.NEWEST_USER,
    }


def test_a_message_id_pinned_in_the_budget_is_held() -> None:
    budget = InstructionBudget()
    budget.pinned_message_ids = {"u1"}

    assert holds([user("u0"), user("u1"), user("u2")], NOTHING_RECENT, budget) == {
        "u0": None,
        "u1": Hold.PINNED,
        "u2": Hold.NEWEST_USER,
    }


def test_a_message_that_the_host_locked_is_held() -> None:
    assert holds([user("u0", GCPolicy.LOCKED), user("u1")], NOTHING_RECENT) == {
        "u0": Hold.LOCKED,
        "u1": Hold.NEWEST_USER,
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
        "u1": Hold.NEWEST_USER,
    }


def test_a_locked_parent_entry_holds_the_messages_of_its_children() -> None:
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


def test_the_policy_of_a_message_overrides_the_budget() -> None:
    history = [user("u0", GCPolicy.EPHEMERAL), user("u1")]

    assert holds(history, NOTHING_RECENT, locked_in_budget("u0"))["u0"] is None


@pytest.mark.parametrize("policy", [GCPolicy.PRESERVABLE, GCPolicy.PARTIAL, GCPolicy.EPHEMERAL])
def test_no_other_policy_holds_a_message(policy: GCPolicy) -> None:
    assert holds([user("u0", policy), user("u1")], NOTHING_RECENT)["u0"] is None


def test_one_protected_message_holds_its_group_but_not_its_turn() -> None:
    history = [
        user("u0", GCPolicy.LOCKED),
        user("u1"),
        calls("c1", "a", "b"),
        results("r1", "a"),
        results("r2", "b", policy=GCPolicy.LOCKED),
        model("m1"),
        user("u2"),
    ]

    assert holds(history, NOTHING_RECENT) == {
        "u0": Hold.LOCKED,
        "u1": None,
        "c1": Hold.LOCKED,
        "r1": Hold.LOCKED,
        "r2": Hold.LOCKED,
        "m1": None,
        "u2": Hold.NEWEST_USER,
    }


def test_an_open_call_is_held_together_with_its_results() -> None:
    history = [user("u0"), user("u1"), calls("c", "a", "b"), results("r", "a")]

    assert holds(history, NOTHING_RECENT) == {
        "u0": None,
        "u1": Hold.NEWEST_USER,
        "c": Hold.OPEN_CALL,
        "r": Hold.OPEN_CALL,
    }


def test_the_strongest_reason_is_named() -> None:
    budget = InstructionBudget()
    budget.pinned_message_ids |= {"u0", "u1"}
    history = [user("u0", GCPolicy.LOCKED), user("u1")]

    assert holds(history, GCConfig(), budget) == {"u0": Hold.LOCKED, "u1": Hold.PINNED}


def test_the_user_message_before_the_first_held_group_is_held() -> None:
    history = [user("u0"), user("u1"), model("m1", GCPolicy.LOCKED), model("m1b"), user("u2")]

    assert holds(history, NOTHING_RECENT) == {
        "u0": None,
        "u1": Hold.FIRST_USER,
        "m1": Hold.LOCKED,
        "m1b": None,
        "u2": Hold.NEWEST_USER,
    }


def test_only_the_first_remaining_turn_keeps_its_user_message() -> None:
    history = [user("u0", GCPolicy.LOCKED), user("u1"), model("m1", GCPolicy.LOCKED), user("u2")]

    assert holds(history, NOTHING_RECENT)["u1"] is None


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(histories(min_turns=0), broken_histories()),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
    st.data(),
)
def test_fixed_and_recent_groups_are_always_held(
    history: list[Message], turns: int, groups: int, whole_turns: bool, data: st.DataObject
) -> None:
    budget = InstructionBudget()
    ids = [message.message_id for message in history]
    if ids:
        budget.pinned_message_ids = data.draw(st.sets(st.sampled_from(ids), max_size=3))
    config = GCConfig(preserve_recent_turns=turns, preserve_recent_groups=groups)
    layout = protect(lay_out(history), config, budget, whole_turns=whole_turns)

    said = [g for g in layout.groups if g.messages[0].role is Role.USER and not g.is_call]
    # Without a request, a summary or a notice is all that the history can begin with.
    requests = [group for group in layout.groups if group.opens_turn] or said
    kept = {
        message.message_id
        for group in layout.groups
        for message in group.messages
        if message.policy is GCPolicy.LOCKED
        or (message.role is Role.SYSTEM and group.is_outside_turns)
        or (message.role is Role.SYSTEM and not message.policy and not message.keeps_place)
        or message.message_id in budget.pinned_message_ids
    }
    for group in layout.groups:
        if group.neighbours and group.messages[0].message_id in kept:
            kept |= set(group.neighbours)
    for group in layout.groups:
        is_fixed = (
            group.is_open
            or group in requests[-1:]
            or any(message.message_id in kept for message in group.messages)
        )
        assert is_fixed == bool(group.hold and group.hold.is_fixed)
    calls_of_turns = [g for g in layout.groups if g.is_call and not g.is_outside_turns]
    for group in calls_of_turns[len(calls_of_turns) - groups :] if groups else []:
        assert group.hold
    for turn in layout.turns[-max(1, turns) :]:
        for group in turn.groups:
            assert group.hold or group.neighbours or (group.is_call and not whole_turns)


# --- helpers for strategies with a collect method of their own ---


@given(histories(min_turns=0))
def test_flattened_turns_are_the_messages_that_belong_to_turns(history: list[Message]) -> None:
    outside = {
        message.message_id
        for group in lay_out(history).groups
        if group.is_outside_turns
        for message in group.messages
    }

    flat = flatten_turns(split_into_turns(history))

    assert sorted(message.message_id for message in flat) == sorted(
        message.message_id for message in history if message.message_id not in outside
    )


@pytest.mark.parametrize(
    ("total", "recent", "pinned", "preserved"),
    [
        (10, 3, None, {7, 8, 9}),
        (3, 5, [], {0, 1, 2}),
        (10, 2, [0, 3], {0, 3, 8, 9}),
        (5, 0, [2, 100, -1], {2}),
        (0, 5, [0], set()),
    ],
)
def test_preserved_turns_are_the_newest_and_pinned_ones(
    total: int, recent: int, pinned: list[int] | None, preserved: set[int]
) -> None:
    assert get_preserved_indices(total, recent, pinned) == preserved


def test_calls_without_results_get_one_and_results_without_calls_go() -> None:
    history = [
        user("u0"),
        Message(Role.MODEL, [Part(function_call=FunctionCall("a", "read"))], message_id="c0"),
        Message(Role.TOOL, [Part(function_response=ToolResult("b", "read", 1))], message_id="r0"),
        user("u1"),
    ]

    repaired = ensure_tool_call_integrity(history)

    assert repaired == repair_history(history)
    assert check_history(repaired) == []
