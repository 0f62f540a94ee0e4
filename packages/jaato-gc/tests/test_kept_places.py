"""Messages that keep their place, and messages that belong together by their bonds."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plugin_answers import WithoutBudget
from plugin_answers import result as result_of_a_plugin

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCError,
    GCOutcome,
    GCPolicy,
    GCSession,
    Message,
    MessageError,
    Part,
    Role,
    ToolResult,
    message_from_dict,
    message_to_dict,
    repair_history,
)
from jaato_gc.plugin import Collection, GCStrategy, lay_out
from jaato_gc_testing import MemoryStash, histories

LONG = "word " * 60


class Remove(GCStrategy[Any]):
    """Removes the groups of the messages that it names."""

    name = "gc_remove"

    def __init__(self, *message_ids: str) -> None:
        super().__init__()
        self._ids = set(message_ids)

    def select(self, collection: Collection) -> None:
        groups = [g for g in collection.groups if self._ids & {m.message_id for m in g.messages}]
        collection.remove(groups, "removed", "test")
        collection.leave_ledger()


def user(message_id: str, text: str = LONG) -> Message:
    return Message.from_text(Role.USER, text, message_id=message_id)


def model(message_id: str, *bonds: str) -> Message:
    return Message(Role.MODEL, [Part(text=LONG)], message_id, bonds=bonds)


def call(message_id: str, *bonds: str) -> Message:
    asked = Part(function_call=FunctionCall(message_id, "read", {"path": "a.py"}))
    return Message(Role.MODEL, [asked], message_id, bonds=bonds)


def result(message_id: str) -> Message:
    answer = ToolResult(message_id.replace("r", "c"), "read", LONG)
    return Message(Role.TOOL, [Part(function_response=answer)], message_id)


def reminder(message_id: str, policy: GCPolicy | None = None) -> Message:
    return Message(
        Role.SYSTEM, [Part(text="Be kind.")], message_id, policy=policy, keeps_place=True
    )


STEPS = [
    user("u0"), reminder("s0"), call("c0"), result("r0"), reminder("s1"), call("c1"), result("r1"),
    reminder("s2"), model("m0"), user("u1"), reminder("s3"),
]  # fmt: skip


def session(*messages: Message, strategy: Any = None, **options: Any) -> GCSession:
    made = GCSession(context_limit=20_000, **options)
    config = GCConfig(preserve_recent_turns=0, preserve_recent_groups=0, target_percent=1.0)
    made.set_gc_plugin(strategy or Remove(), config)
    for message in messages:
        made.append(message)
    return made


def ids_of(live: GCSession) -> list[str]:
    return [message.message_id for message in live.history]


def groups_of(*messages: Message) -> list[list[str]]:
    return [[m.message_id for m in group.messages] for group in lay_out(messages).groups]


# --- messages that keep their place ---


@pytest.mark.parametrize(
    ("removed", "gone"),
    [
        (["c0"], {"s0", "c0", "r0", "s1"}),
        (["c1"], {"s1", "c1", "r1", "s2"}),
        (["m0"], {"s2", "m0"}),
        (["c0", "c1"], {"s0", "c0", "r0", "s1", "c1", "r1", "s2"}),
    ],
)
def test_a_reminder_goes_with_the_message_before_or_after_it(
    removed: list[str], gone: set[str]
) -> None:
    live = session(*STEPS, strategy=Remove(*removed))
    before = ids_of(live)

    [item] = live.manual_gc().removal_list

    assert [each for each in ids_of(live) if each in before] == [
        each for each in before if each not in gone
    ]
    assert set(item.message_ids) == gone


def test_a_ledger_does_not_separate_a_reminder_from_its_message() -> None:
    live = session(
        user("u0"), call("c0"), result("r0"), reminder("s1"), model("m0"), user("u1"),
        strategy=Remove("m0"),
    )  # fmt: skip
    live.manual_gc()

    ids = ids_of(live)

    assert "s1" not in ids
    assert ids[:3] == ["u0", "c0", "r0"]


def test_a_summary_is_not_inserted_beside_a_reminder_that_stays() -> None:
    class Insert(GCStrategy[Any]):
        name = "gc_insert"
        positions: dict[str, int]

        def select(self, collection: Collection) -> None:
            groups = {group.messages[0].message_id: group for group in collection.groups}
            self.positions = {
                message_id: collection.position_before([group])
                for message_id, group in groups.items()
            }

    strategy = Insert()
    session(*STEPS, strategy=strategy).manual_gc()

    at = {message.message_id: place for place, message in enumerate(STEPS)}
    wanted = {"c0": "u0", "s1": "u0", "c1": "u0", "m0": "u0", "u1": "u1"}
    assert {each: strategy.positions[each] for each in wanted} == {
        message_id: at[place] for message_id, place in wanted.items()
    }


@pytest.mark.parametrize("how", ["locked", "pinned"])
def test_a_held_reminder_holds_both_neighbours(how: str) -> None:
    steps = [
        reminder("s1", GCPolicy.LOCKED) if how == "locked" and each.message_id == "s1" else each
        for each in STEPS
    ]
    live = session(*steps, strategy=Remove("c0", "c1", "m0"))
    if how == "pinned":
        live.pin("s1")

    live.manual_gc()

    assert set(ids_of(live)) >= {"c0", "r0", "s1", "c1", "r1"}
    assert not {"m0", "s2"} & set(ids_of(live))


def test_a_system_message_without_a_place_is_locked_unless_the_host_says_otherwise() -> None:
    def policy_of(message: Message) -> GCPolicy | None:
        return GCPolicy.PARTIAL if message.message_id == "free" else None

    steps = [Message.from_text(Role.SYSTEM, LONG, message_id=name) for name in ("kept", "free")]
    prompt = Message.from_text(Role.SYSTEM, LONG, message_id="free")
    live = session(prompt, user("u0"), *steps, model("m0"), user("u1"), policy_of=policy_of)
    free = ids_of(live)[3]
    live = session(
        user("u0"), *steps, model("m0"), user("u1"),
        policy_of=policy_of, strategy=Remove("kept", "free", "m0"),
    )  # fmt: skip
    live.manual_gc()

    assert free != "free"  # the id was taken
    assert "kept" in ids_of(live)
    assert not {"free", "m0"} & set(ids_of(live))


def test_a_session_removes_a_reminder_with_the_message_beside_it_and_undoes_both() -> None:
    live = session(*STEPS)
    before = ids_of(live)

    live.remove("c1")

    assert ids_of(live) == [each for each in before if each not in ("s1", "c1", "r1", "s2")]
    live.undo()
    assert ids_of(live) == before


def test_a_message_beside_a_locked_reminder_is_removed_only_by_force() -> None:
    live = session(user("u0"), reminder("s0", GCPolicy.LOCKED), model("m0"), user("u1"))

    with pytest.raises(MessageError, match=r"s0.*LOCKED"):
        live.remove("m0")

    live.remove("m0", force=True)
    assert ids_of(live) == ["u0", "u1"]


@pytest.mark.parametrize("removed", [("u0",), ("u0", "c0")])
def test_a_request_does_not_go_with_the_message_beside_it(removed: tuple[str, ...]) -> None:
    first = replace(user("u0"), policy=GCPolicy.PARTIAL)
    request = replace(user("u1"), policy=GCPolicy.PARTIAL, keeps_place=True)
    calls = call("c0"), result("r0"), call("c1"), result("r1")
    live = session(first, request, *calls, user("u2"), strategy=Remove(*removed))

    collected = live.manual_gc()

    assert collected.error is None
    assert not set(removed) & set(ids_of(live))
    assert ids_of(live)[0] == "u1"


def test_a_request_returns_without_the_message_beside_it() -> None:
    request = replace(user("u1"), keeps_place=True)
    steps = user("u0"), model("m0"), request, model("m1"), user("u2")
    live = session(*steps, strategy=Remove("m0", "u1"), stash=MemoryStash())
    [item] = live.manual_gc().removal_list
    keys = dict(zip(item.message_ids, item.stash_keys, strict=True))

    live.restore_stashed([keys["u1"]])

    assert ids_of(live) == ["u0", "u1", "m1", "u2"]


def test_a_replaced_message_keeps_its_place_and_its_bonds() -> None:
    live = session(user("u0"), reminder("s0"), model("m0", "code"), user("u1"))

    live.replace("s0", Message.from_text(Role.SYSTEM, "Be brief."))
    live.replace("m0", Message.from_text(Role.MODEL, "Done."))

    assert live.history[1].keeps_place
    assert live.history[2].bonds == ("code",)


def test_a_reminder_returns_to_its_place_only_with_its_neighbours() -> None:
    live = session(*STEPS, strategy=Remove("c1"), stash=MemoryStash())
    before = ids_of(live)
    [item] = live.manual_gc().removal_list
    keys = dict(zip(item.message_ids, item.stash_keys, strict=True))

    with pytest.raises(GCError, match="'s1' keeps its place"):
        live.restore_stashed([keys["s1"]], at="place")

    live.restore_stashed([keys[each] for each in ("c1", "s1", "s2")], at="place")
    assert [each for each in ids_of(live) if each in before] == before


def test_repair_removes_a_reminder_that_loses_its_neighbour() -> None:
    empty = Message(Role.MODEL, [Part(text="")], "empty")

    repaired = repair_history([user("u0"), reminder("s0"), empty, user("u1"), reminder("s1")])

    assert [message.message_id for message in repaired] == ["u0", "u1", "s1"]


@pytest.mark.parametrize("gone", [("c0", "r0"), ("c0", "r0", "s0", "s1")])
def test_a_plugin_that_returns_a_history_need_not_know_places(gone: tuple[str, ...]) -> None:
    def script(history: list[Message]) -> Any:
        return [each for each in history if each.message_id not in gone], result_of_a_plugin()

    live = session(*STEPS, strategy=WithoutBudget(script))
    outcome = live.manual_gc()

    assert outcome.outcome is not GCOutcome.REJECTED, outcome.error
    assert not {"s0", "c0", "r0", "s1"} & set(ids_of(live))
    assert {"c1", "s2", "m0"} <= set(ids_of(live))


# --- messages that belong together ---


def test_messages_that_share_a_bond_are_one_group() -> None:
    found = groups_of(
        user("u0"), call("c0", "code"), result("r0"), call("c1", "code"), result("r1"),
        model("m1", "code", "search"), user("u1"), model("m2", "search"), model("m3", "other"),
    )  # fmt: skip

    assert found == [["u0"], ["c0", "r0", "c1", "r1", "m1", "m2"], ["u1"], ["m3"]]


def test_thoughts_belong_to_the_messages_of_the_model_that_follow_them() -> None:
    thought = Message(Role.MODEL, [Part(thought="I should read it.")], "t0")

    found = groups_of(
        user("u0"), thought, model("m0"), call("c0"), result("r0"), model("m1"), model("m2")
    )

    assert found == [["u0"], ["t0", "m0", "c0", "r0"], ["m1"], ["m2"]]


def test_a_part_of_what_belongs_together_is_not_removed_alone() -> None:
    live = session(
        user("u0"), call("c0", "code"), result("r0"), model("m0", "code"), user("u1"),
        strategy=Remove("m0"),
    )  # fmt: skip

    live.manual_gc()

    assert not {"c0", "r0", "m0"} & set(ids_of(live))


@settings(deadline=None, max_examples=60)
@given(histories(), st.data())
def test_after_a_removal_by_the_host_every_reminder_has_its_neighbours(
    history: list[Message], data: st.DataObject
) -> None:
    live = session(*history)
    before = live.history
    around = {
        m.message_id: (before[at - 1], before[at + 1 : at + 2]) for at, m in enumerate(before)
    }
    chosen = data.draw(st.sampled_from(before)).message_id

    try:
        live.remove(chosen, force=True)
    except MessageError:
        return

    after = list(live.history)
    bonds = {bond for m in before if m not in after for bond in m.bonds}
    assert not any(bonds & set(message.bonds) for message in after)
    for at, message in enumerate(after):
        if message.keeps_place:
            assert (after[at - 1], tuple(after[at + 1 : at + 2])) == (
                around[message.message_id][0],
                tuple(around[message.message_id][1]),
            )


# --- as data ---


def test_places_and_bonds_survive_saving() -> None:
    for message in (reminder("s0"), model("m0", "a", "b")):
        assert message_from_dict(message_to_dict(message)) == message
    assert message_to_dict(model("m0")).keys() == {"role", "parts", "message_id"}


@pytest.mark.parametrize("field", [{"bonds": "code"}, {"bonds": [1]}, {"keeps_place": 1}])
def test_damaged_places_and_bonds_are_refused(field: dict[str, Any]) -> None:
    with pytest.raises(MessageError, match=next(iter(field))):
        message_from_dict({**message_to_dict(model("m0")), **field})
