"""The instruction budget: its totals are always right, and a snapshot loses nothing."""

import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jaato_gc import (
    GC_POLICY_INDICATORS,
    ConversationTurnType,
    GCError,
    GCPolicy,
    InstructionBudget,
    InstructionSource,
    PluginToolType,
    ReadOnlyError,
    SourceEntry,
    SystemChildType,
)
from jaato_gc.commit import AT_ONCE
from jaato_gc.plugin import (
    DEFAULT_SOURCE_POLICIES,
    DEFAULT_SYSTEM_POLICIES,
    DEFAULT_TOOL_POLICIES,
    DEFAULT_TURN_POLICIES,
    REMOVABLE_POLICIES,
)

SYSTEM, PLUGIN, ENRICHMENT, CONVERSATION = InstructionSource
LOCKED, PRESERVABLE = GCPolicy.LOCKED, GCPolicy.PRESERVABLE
PARTIAL, EPHEMERAL = GCPolicy.PARTIAL, GCPolicy.EPHEMERAL


def conversation(context_limit: int = 1000) -> InstructionBudget:
    """A budget with something under every policy."""
    budget = InstructionBudget.create_default("session", context_limit=context_limit)
    budget.update_tokens(SYSTEM, 100)
    budget.add_child(PLUGIN, "core", 40, LOCKED)
    budget.add_child(PLUGIN, "search", 20, EPHEMERAL)
    budget.update_tokens(ENRICHMENT, 30)
    budget.add_child(CONVERSATION, "original_request", 10, LOCKED, message_ids=["m1"])
    budget.add_child(CONVERSATION, "clarification", 5, PRESERVABLE, message_ids=["m2"])
    budget.add_child(CONVERSATION, "turn_1", 50, PARTIAL, message_ids=["m3", "m4"])
    budget.add_child(CONVERSATION, "call_1", 45, EPHEMERAL, parent_key="turn_1")
    return budget


# --- the vocabulary ---


def test_default_policies_are_those_of_the_design() -> None:
    assert DEFAULT_SOURCE_POLICIES == {
        SYSTEM: LOCKED,
        PLUGIN: PARTIAL,
        ENRICHMENT: EPHEMERAL,
        CONVERSATION: PARTIAL,
    }
    assert set(DEFAULT_SYSTEM_POLICIES.values()) == {LOCKED}
    assert set(DEFAULT_SYSTEM_POLICIES) == set(SystemChildType)
    assert DEFAULT_TOOL_POLICIES == {
        PluginToolType.CORE: LOCKED,
        PluginToolType.DISCOVERABLE: EPHEMERAL,
    }
    assert DEFAULT_TURN_POLICIES == {
        ConversationTurnType.ORIGINAL_REQUEST: LOCKED,
        ConversationTurnType.CLARIFICATION_Q: PRESERVABLE,
        ConversationTurnType.CLARIFICATION_A: PRESERVABLE,
        ConversationTurnType.TURN_SUMMARY: PRESERVABLE,
        ConversationTurnType.WORKING: EPHEMERAL,
    }
    of_the_design = (LOCKED, PRESERVABLE, PARTIAL, EPHEMERAL)
    assert [GC_POLICY_INDICATORS[policy] for policy in of_the_design] == ["🔒", "◑", "◐", "○"]
    assert GC_POLICY_INDICATORS.keys() == set(GCPolicy)


def test_policies_are_never_removed_or_under_pressure_or_in_the_list_of_removable_ones() -> None:
    assert list(GCPolicy) == [LOCKED, PRESERVABLE, *reversed(REMOVABLE_POLICIES)]


# --- one entry ---


def test_source_entry_timestamp() -> None:
    before = time.time()
    entry = SourceEntry(source=CONVERSATION, tokens=7, gc_policy=PARTIAL)
    after = time.time()

    assert before <= entry.created_at <= after
    assert entry.to_dict()["created_at"] == entry.created_at
    assert SourceEntry.from_dict(json.loads(json.dumps(entry.to_dict()))) == entry
    assert SourceEntry(CONVERSATION, 7, PARTIAL, created_at=0.0).created_at == 0.0


def test_an_entry_can_be_made_with_every_field_of_the_design() -> None:
    entry = SourceEntry(
        source=PLUGIN,
        tokens=3,
        gc_policy=EPHEMERAL,
        label="search",
        children={"schema": SourceEntry(PLUGIN, 4, EPHEMERAL)},
        metadata={"tool": "search"},
        created_at=12.5,
        message_ids=["m1"],
    )

    assert (entry.tokens, entry.total_tokens()) == (3, 7)
    assert (entry.label, entry.metadata, entry.message_ids) == (
        "search",
        {"tool": "search"},
        ["m1"],
    )
    assert entry.children["schema"].key == "schema"
    assert entry.children["schema"].parent is entry


@pytest.mark.parametrize(
    "field", ["tokens", "gc_policy", "children", "message_ids", "metadata", "label", "created_at"]
)
def test_an_entry_is_changed_through_its_budget_only(field: str) -> None:
    entry = SourceEntry(PLUGIN, 3, EPHEMERAL)

    with pytest.raises(ReadOnlyError, match=r"read-only, .*budget\.clear_source\(source\)"):
        setattr(entry, field, getattr(entry, field))


@pytest.mark.parametrize(
    "change",
    [
        lambda budget: budget.entries.clear(),
        lambda budget: budget.entries[CONVERSATION].children.clear(),
        lambda budget: budget.entries[CONVERSATION].children.pop("turn_1"),
        lambda budget: budget.entries[CONVERSATION].children.update(other=SourceEntry),
    ],
)
def test_entries_can_not_be_removed_behind_the_back_of_the_budget(
    change: Callable[[Any], object],
) -> None:
    budget = conversation()
    before = budget.snapshot()

    with pytest.raises(TypeError, match=r"read-only, .*update_tokens.*remove_child"):
        change(budget)

    assert budget.snapshot() == before


def test_metadata_of_an_entry_is_read_only() -> None:
    entry = SourceEntry(PLUGIN, 3, EPHEMERAL, metadata={"tool": "search"})

    with pytest.raises(TypeError, match="read-only"):
        entry.metadata.update(tool="other")  # type: ignore[attr-defined]

    assert entry.metadata == {"tool": "search"}


def test_children_are_read_only() -> None:
    entry = conversation().entries[CONVERSATION]

    with pytest.raises(TypeError, match="read-only"):
        entry.children["new"] = entry  # type: ignore[index]


@pytest.mark.parametrize("change", [lambda ids: ids.append("m9"), lambda ids: ids.extend(["m9"])])
def test_message_ids_can_not_be_changed_behind_the_back_of_the_budget(
    change: Callable[[Any], object],
) -> None:
    budget = conversation()
    entry = budget.get_child(CONVERSATION, "turn_1")
    assert entry is not None

    with pytest.raises(TypeError, match="read-only"):
        change(entry.message_ids)

    assert entry.message_ids == ["m3", "m4"]
    assert budget.entry_of("m9") is None


def test_entries_are_read_only() -> None:
    budget = conversation()

    with pytest.raises(TypeError):
        budget.entries[PLUGIN] = budget.entries[SYSTEM]  # type: ignore[index]


def test_the_effective_policy_of_an_entry_follows_its_children() -> None:
    def parent(own: GCPolicy, *children: GCPolicy) -> GCPolicy:
        entries = {str(n): SourceEntry(PLUGIN, 1, each) for n, each in enumerate(children)}
        return SourceEntry(PLUGIN, 0, own, children=entries).effective_gc_policy()

    assert parent(PRESERVABLE) is PRESERVABLE
    assert parent(PARTIAL, EPHEMERAL, EPHEMERAL) is EPHEMERAL
    assert parent(EPHEMERAL, EPHEMERAL, LOCKED) is PARTIAL
    assert parent(PARTIAL, LOCKED) is LOCKED
    assert parent(LOCKED, EPHEMERAL) is LOCKED


def test_a_locked_entry_locks_everything_below_it() -> None:
    budget = InstructionBudget()
    budget.add_child(CONVERSATION, "kept", 1, LOCKED)
    below = budget.add_child(CONVERSATION, "output", 2, EPHEMERAL, parent_key="kept")

    assert below.gc_policy is EPHEMERAL
    assert below.binding_policy() is LOCKED
    assert budget.locked_tokens() == 3
    assert budget.gc_eligible_tokens() == 0


def test_the_indicator_shows_the_effective_policy() -> None:
    budget = conversation()

    shown = {source: entry.indicator() for source, entry in budget.entries.items()}
    assert shown == {SYSTEM: "🔒", PLUGIN: "◐", ENRICHMENT: "○", CONVERSATION: "◐"}


def test_an_entry_has_totals_by_policy() -> None:
    entry = conversation().entries[CONVERSATION]

    assert entry.locked_tokens() == 10
    assert entry.preservable_tokens() == 5
    assert entry.gc_eligible_tokens() == 95
    assert entry.total_tokens() == 110


def test_negative_tokens_are_an_error_and_change_nothing() -> None:
    budget = conversation()
    before = budget.snapshot()

    with pytest.raises(GCError, match="-1"):
        SourceEntry(PLUGIN, -1, EPHEMERAL)
    with pytest.raises(GCError, match="-1"):
        budget.update_tokens(CONVERSATION, -1, "turn_1")
    with pytest.raises(GCError, match="-1"):
        budget.add_child(CONVERSATION, "turn_1", -1, PARTIAL)
    with pytest.raises(GCError, match="-1"):
        budget.set_entry(CONVERSATION, -1)
    assert budget.snapshot() == before


# --- the whole ---


def test_a_default_budget_has_an_empty_entry_for_every_source() -> None:
    budget = InstructionBudget.create_default("s1", "researcher", "sub", context_limit=500)

    assert {source: entry.gc_policy for source, entry in budget.entries.items()} == (
        DEFAULT_SOURCE_POLICIES
    )
    assert budget.total_tokens() == 0
    assert (budget.session_id, budget.agent_id, budget.agent_type) == ("s1", "researcher", "sub")
    assert budget.context_limit == budget.available_tokens() == 500


def test_totals_by_tier_and_window() -> None:
    budget = conversation()

    assert budget.total_tokens() == budget.counted_tokens() == 300
    assert budget.locked_tokens() == 150
    assert budget.preservable_tokens() == 5
    assert budget.gc_eligible_tokens() == 145
    assert budget.available_tokens() == 700
    assert budget.utilization_percent() == 30.0
    assert budget.gc_headroom_percent() == pytest.approx(14.5)


def test_a_total_is_own_tokens_and_children() -> None:
    budget = InstructionBudget()
    budget.set_entry(CONVERSATION, 7)
    budget.add_child(CONVERSATION, "turn_0", 5, PARTIAL)

    assert budget.entries[CONVERSATION].total_tokens() == budget.total_tokens() == 12
    budget.update_tokens(CONVERSATION, 1)
    assert budget.total_tokens() == 6


@pytest.mark.parametrize("limit", [0, -1])
def test_an_unknown_window_is_used_to_0_percent(limit: int) -> None:
    budget = conversation(context_limit=limit)

    assert budget.utilization_percent() == budget.gc_headroom_percent() == 0.0
    assert budget.available_tokens() == 0


def test_an_overfull_window_has_nothing_available() -> None:
    budget = conversation(context_limit=200)

    assert budget.available_tokens() == 0
    assert budget.utilization_percent() == 150.0


def test_the_correction_moves_the_total_and_not_the_entries() -> None:
    budget = conversation()
    budget.unbooked_tokens = 25

    assert (budget.total_tokens(), budget.counted_tokens()) == (325, 300)
    assert sum(entry.total_tokens() for entry in budget.entries.values()) == 300
    budget.ratio = 0.5
    assert (budget.total_tokens(), budget.counted_tokens()) == (175, 300)


def test_children_are_found_by_key_at_any_depth() -> None:
    budget = conversation()

    call = budget.get_child(CONVERSATION, "call_1")
    assert call is not None
    assert call.tokens == 45
    assert call.parent is budget.get_child(CONVERSATION, "turn_1")
    assert budget.get_child(PLUGIN, "call_1") is None
    assert budget.get_child(CONVERSATION, None) is None


def test_messages_are_found_by_id() -> None:
    budget = conversation()

    assert budget.entry_of("m4") is budget.get_child(CONVERSATION, "turn_1")
    assert budget.entry_of("unknown") is None
    budget.remove_child(CONVERSATION, "turn_1")
    assert budget.entry_of("m4") is None


def test_removing_a_child_removes_everything_below_it() -> None:
    budget = conversation()

    assert budget.remove_child(CONVERSATION, "turn_1") is True
    assert budget.get_child(CONVERSATION, "call_1") is None
    assert budget.total_tokens() == 205
    assert budget.remove_child(CONVERSATION, "turn_1") is False


def test_a_child_may_have_an_empty_key() -> None:
    budget = conversation()
    before = budget.total_tokens()
    budget.add_child(PLUGIN, "", 7, EPHEMERAL)

    assert budget.get_child(PLUGIN, "") is budget.entries[PLUGIN].children[""]
    assert set(budget.entries) == set(InstructionSource)
    assert budget.total_tokens() == before + 7
    assert budget.remove_child(PLUGIN, "")
    assert budget.total_tokens() == before


def test_a_child_with_an_existing_key_replaces_the_existing_one() -> None:
    budget = conversation()
    child = budget.add_child(CONVERSATION, "turn_1", 1, EPHEMERAL, message_ids=["m9"])

    assert budget.get_child(CONVERSATION, "turn_1") is child
    assert budget.total_tokens() == 206
    assert budget.entry_of("m3") is None
    assert budget.entry_of("m9") is child


def test_a_child_is_labelled_by_its_key_unless_told() -> None:
    budget = InstructionBudget()

    assert budget.add_child(CONVERSATION, "turn_0", 1, PARTIAL).label == "turn_0"
    summary = budget.add_child(
        source=CONVERSATION,
        child_key="gc_summary_1",
        tokens=9,
        gc_policy=PRESERVABLE,
        label="Context Summary",
        metadata={"created_by": "gc_summarize"},
    )
    assert (summary.label, summary.metadata) == ("Context Summary", {"created_by": "gc_summarize"})


@pytest.mark.parametrize("parent_key", ["turn_1", "call_1"], ids=["itself", "its child"])
def test_a_child_can_not_be_its_own_parent(parent_key: str) -> None:
    budget = conversation()
    before = budget.snapshot()

    with pytest.raises(GCError, match="below itself"):
        budget.add_child(CONVERSATION, "turn_1", 1, PARTIAL, parent_key=parent_key)
    assert budget.snapshot() == before


def test_unknown_keys_are_an_error_that_names_them() -> None:
    budget = conversation()

    with pytest.raises(GCError, match="conversation/turn_99"):
        budget.update_tokens(CONVERSATION, 1, "turn_99")
    with pytest.raises(GCError, match="conversation/turn_99"):
        budget.add_child(CONVERSATION, "new", 1, PARTIAL, parent_key="turn_99")
    with pytest.raises(GCError, match="plugin"):
        InstructionBudget().update_tokens(PLUGIN, 1)


def test_a_source_is_replaced_with_its_children() -> None:
    budget = conversation()
    budget.set_entry(PLUGIN, 3, label="tools", children={"bash": SourceEntry(PLUGIN, 4, LOCKED)})

    assert budget.get_child(PLUGIN, "core") is None
    assert budget.entries[PLUGIN].total_tokens() == 7
    assert budget.total_tokens() == 300 - 60 + 7


def test_a_source_may_get_a_new_policy_and_keep_its_children() -> None:
    budget = conversation()
    budget.set_entry(CONVERSATION, 0, LOCKED, children=budget.entries[CONVERSATION].children)

    assert budget.total_tokens() == 300
    assert budget.locked_tokens() == 250
    assert budget.gc_eligible_tokens() == 50
    assert budget.preservable_tokens() == 0


def test_a_cleared_source_is_empty_and_keeps_its_policy() -> None:
    budget = conversation()
    budget.set_entry(ENRICHMENT, 5, PRESERVABLE, "memories")
    budget.clear_source(ENRICHMENT)
    budget.clear_source(CONVERSATION)

    assert budget.entries[ENRICHMENT].total_tokens() == 0
    assert (budget.entries[ENRICHMENT].gc_policy, budget.entries[ENRICHMENT].label) == (
        PRESERVABLE,
        "memories",
    )
    assert budget.get_child(CONVERSATION, "turn_1") is None
    assert budget.total_tokens() == 160


def test_clearing_an_unknown_source_does_nothing() -> None:
    budget = InstructionBudget()
    budget.clear_source(ENRICHMENT)

    assert dict(budget.entries) == {}


# --- snapshots ---


def test_a_snapshot_shows_the_effective_policy_and_what_can_be_freed() -> None:
    snapshot = conversation().snapshot()

    entries = snapshot["entries"]
    shown = entries["conversation"]
    assert (shown["gc_policy"], shown["own_gc_policy"]) == ("partial", "partial")
    freeable = sum(entry["gc_eligible_tokens"] for entry in entries.values())
    assert freeable == snapshot["gc_eligible_tokens"]


def test_entries_that_jaato_server_saved_can_be_restored() -> None:
    """It leaves out empty fields, and has the effective policy only."""
    saved = {
        "source": "conversation",
        "tokens": 0,
        "total_tokens": 70,
        "gc_policy": "partial",
        "gc_eligible_tokens": 30,
        "indicator": "◐",
        "created_at": 1.0,
        "children": {
            "turn_0": {"source": "conversation", "tokens": 40, "gc_policy": "locked"},
            "turn_1": {
                "source": "conversation",
                "tokens": 30,
                "gc_policy": "ephemeral",
                "message_ids": ["m3"],
            },
        },
    }
    budget = InstructionBudget.create_default()

    budget.restore_conversation_from_snapshot(saved)

    assert (budget.total_tokens(), budget.locked_tokens()) == (70, 40)
    entry = budget.entry_of("m3")
    assert entry is not None
    assert (entry.key, entry.gc_policy) == ("turn_1", EPHEMERAL)


def test_the_type_of_an_agent_is_its_id_unless_given() -> None:
    assert InstructionBudget.create_default(agent_id="research").agent_type == "research"
    assert InstructionBudget(agent_id="r", agent_type="research").agent_type == "research"


def test_a_snapshot_is_json_with_every_total() -> None:
    snapshot = conversation().snapshot()

    assert json.loads(json.dumps(snapshot)) == snapshot
    assert snapshot["total_tokens"] == 300
    assert snapshot["utilization_percent"] == 30.0
    assert snapshot["confidence"] == "estimated"
    turn = snapshot["entries"]["conversation"]["children"]["turn_1"]
    assert (turn["own_gc_policy"], turn["gc_policy"]) == ("partial", "ephemeral")
    assert turn["message_ids"] == ["m3", "m4"]


def test_a_snapshot_does_not_follow_the_budget() -> None:
    budget = conversation()
    snapshot = budget.snapshot()
    budget.add_child(CONVERSATION, "turn_2", 1, PARTIAL)
    budget.pinned_message_ids |= {"m1"}

    assert snapshot == conversation_like(snapshot).snapshot()
    assert "turn_2" not in snapshot["entries"]["conversation"]["children"]


def conversation_like(snapshot: dict[str, Any]) -> InstructionBudget:
    return InstructionBudget.from_snapshot(json.loads(json.dumps(snapshot)))


def test_the_conversation_is_restored_into_another_budget() -> None:
    budget = conversation()
    budget.pinned_message_ids |= {"m1", "m4"}
    other = InstructionBudget.create_default("session", context_limit=1000)
    other.update_tokens(SYSTEM, 7)
    other.add_child(CONVERSATION, "stale", 9, PARTIAL, message_ids=["old"])

    saved = json.loads(json.dumps(budget.get_conversation_snapshot()))
    other.restore_conversation_from_snapshot(saved)

    assert other.entries[CONVERSATION] == budget.entries[CONVERSATION]
    assert other.get_conversation_snapshot() == budget.get_conversation_snapshot()
    assert other.pinned_message_ids == {"m1", "m4"}
    assert other.total_tokens() == 7 + 110
    assert other.get_child(CONVERSATION, "stale") is None
    assert other.entry_of("old") is None
    restored = other.entry_of("m3")
    assert restored is not None
    assert restored.key == "turn_1"


def test_restoring_nothing_changes_nothing() -> None:
    budget = conversation()
    before = budget.snapshot()
    budget.restore_conversation_from_snapshot(None)
    budget.restore_conversation_from_snapshot({})

    assert budget.snapshot() == before
    assert InstructionBudget().get_conversation_snapshot() is None


def test_the_conversation_can_be_restored_from_a_snapshot_of_the_whole_budget() -> None:
    budget, other = conversation(), InstructionBudget.create_default()

    other.restore_conversation_from_snapshot(json.loads(json.dumps(budget.snapshot())))

    assert other.get_conversation_snapshot() == budget.get_conversation_snapshot()


@pytest.mark.parametrize("saved", [{"a": 1}, {"entries": {}}, {"entries": 5}, [1], "text"])
def test_what_is_no_snapshot_of_a_conversation_changes_nothing(saved: Any) -> None:
    budget = conversation()
    before = budget.snapshot()

    with pytest.raises(GCError, match=r"the snapshot of the (budget|conversation) can't be read"):
        budget.restore_conversation_from_snapshot(saved)

    assert budget.snapshot() == before


def test_an_entry_of_another_source_is_no_conversation() -> None:
    budget = conversation()

    with pytest.raises(
        GCError, match="expected a snapshot of the conversation, got one of 'plugin'"
    ):
        budget.restore_conversation_from_snapshot(budget.entries[PLUGIN].to_dict())


# --- any sequence of operations ---

SOURCES = st.sampled_from(InstructionSource)
POLICIES = st.sampled_from(GCPolicy)
TOKENS = st.integers(0, 10_000)
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])


def recount(entry: SourceEntry, locked: bool = False) -> Iterator[tuple[GCPolicy, int]]:
    """What each entry holds, and under which policy, found by walking."""
    locked = locked or entry.gc_policy is LOCKED
    yield (LOCKED if locked else entry.gc_policy), entry.tokens
    for child in entry.children.values():
        yield from recount(child, locked)


class BudgetMachine(RuleBasedStateMachine):
    """Makes every change that a host may make, and recounts after every step."""

    @initialize(default=st.booleans())
    def start(self, default: bool) -> None:
        make = InstructionBudget.create_default if default else InstructionBudget
        self.budget = make("session", context_limit=50_000)
        self.numbers = itertools.count()

    def fresh_ids(self, count: int) -> list[str]:
        return [f"m{next(self.numbers)}" for _ in range(count)]

    def attempt(self, change: Callable[[], object]) -> None:
        """Make a change, or be refused without a trace."""
        before = self.budget.snapshot()
        try:
            change()
        except GCError:
            # Adding below a source that is not there yet makes that source first.
            after = self.budget.snapshot()
            assert after["total_tokens"] == before["total_tokens"]
            assert before["entries"].items() <= after["entries"].items()

    @rule(source=SOURCES, tokens=TOKENS, policy=st.none() | POLICIES, own=st.booleans())
    def set_entry(
        self, source: InstructionSource, tokens: int, policy: GCPolicy | None, own: bool
    ) -> None:
        entry = self.budget.get_entry(source)
        children = entry.children if own and entry else {"s": SourceEntry(source, 3, EPHEMERAL)}
        self.budget.set_entry(source, tokens, policy, children=children)

    @rule(source=SOURCES, key=KEYS, parent=st.none() | KEYS, tokens=TOKENS, policy=POLICIES)
    def add_child(
        self,
        source: InstructionSource,
        key: str,
        parent: str | None,
        tokens: int,
        policy: GCPolicy,
    ) -> None:
        ids = self.fresh_ids(2)
        self.attempt(
            lambda: self.budget.add_child(
                source, key, tokens, policy, message_ids=ids, parent_key=parent
            )
        )

    @rule(source=SOURCES, key=st.none() | KEYS, tokens=st.integers(-5, 10_000))
    def update_tokens(self, source: InstructionSource, key: str | None, tokens: int) -> None:
        self.attempt(lambda: self.budget.update_tokens(source, tokens, key))

    @rule(source=SOURCES, key=KEYS)
    def remove_child(self, source: InstructionSource, key: str) -> None:
        known = self.budget.get_child(source, key) is not None
        assert self.budget.remove_child(source, key) is known

    @rule(source=SOURCES)
    def clear_source(self, source: InstructionSource) -> None:
        self.budget.clear_source(source)

    @rule(tokens=st.integers(0, 500), is_pinned=st.booleans(), data=st.data())
    def attach_a_message(self, tokens: int, is_pinned: bool, data: st.DataObject) -> None:
        entries = [entry for root in self.budget.entries.values() for entry in root.walk()]
        if entries:
            entry, (message_id,) = data.draw(st.sampled_from(entries)), self.fresh_ids(1)
            pins = [message_id] if is_pinned else []
            self.budget._tree.attach_message(AT_ONCE, entry, message_id, tokens, pins)

    @precondition(lambda self: self.budget._tree.by_message)
    @rule(data=st.data(), tokens=st.integers(0, 500))
    def remove_a_message(self, data: st.DataObject, tokens: int) -> None:
        message_id = data.draw(st.sampled_from(sorted(self.budget._tree.by_message)))
        self.budget.remove_messages({message_id: tokens})

    @precondition(lambda self: self.budget._tree.by_message)
    @rule(data=st.data(), tokens=st.integers(0, 500))
    def rebook(self, data: st.DataObject, tokens: int) -> None:
        entry = self.budget.entry_of(
            data.draw(st.sampled_from(sorted(self.budget._tree.by_message)))
        )
        assert entry is not None
        self.budget._tree.rebook(entry, tokens, self.fresh_ids(2))

    @rule(
        ratio=st.floats(0.5, 1.5),
        unbooked=st.integers(0, 500),
        pins=st.sets(st.sampled_from(["m0", "m1", "m2"])),
    )
    def correct_and_pin(self, ratio: float, unbooked: int, pins: set[str]) -> None:
        self.budget.ratio, self.budget.unbooked_tokens = ratio, unbooked
        self.budget.pinned_message_ids = pins

    @rule()
    def save_and_load(self) -> None:
        snapshot = self.budget.snapshot()
        loaded = InstructionBudget.from_snapshot(json.loads(json.dumps(snapshot)))
        assert loaded.snapshot() == snapshot
        self.budget = loaded

    @precondition(lambda self: CONVERSATION in self.budget.entries)
    @rule()
    def restore_the_conversation(self) -> None:
        saved = self.budget.get_conversation_snapshot()
        other = InstructionBudget.create_default()
        other.restore_conversation_from_snapshot(json.loads(json.dumps(saved)))
        assert other.get_conversation_snapshot() == saved
        assert other.pinned_message_ids == self.budget.pinned_message_ids
        before, after = self.budget.entries[CONVERSATION], other.entries[CONVERSATION]
        assert [each.to_dict() for each in after.walk()] == [e.to_dict() for e in before.walk()]

    @invariant()
    def totals_equal_a_recount(self) -> None:
        budget = self.budget
        tiers = dict.fromkeys(GCPolicy, 0)
        for entry in budget.entries.values():
            counted = list(recount(entry))
            assert entry.total_tokens() == sum(tokens for _, tokens in counted)
            for policy, tokens in counted:
                tiers[policy] += tokens
        assert budget.counted_tokens() == sum(tiers.values())
        corrected = int(budget.ratio * sum(tiers.values())) + budget.unbooked_tokens
        assert budget.total_tokens() == corrected
        assert budget.locked_tokens() == tiers[LOCKED]
        assert budget.preservable_tokens() == tiers[PRESERVABLE]
        assert budget.gc_eligible_tokens() == sum(tiers[each] for each in REMOVABLE_POLICIES)

    @invariant()
    def fixed_tokens_equal_a_recount(self) -> None:
        budget = self.budget
        fixed = sum(
            entry.tokens
            for root in budget.entries.values()
            for entry in root.walk()
            if entry.binding_policy() is LOCKED
            or (entry.source is not CONVERSATION and not entry.message_ids)
            or (entry.message_ids and budget.pinned_message_ids >= set(entry.message_ids))
        )
        assert budget.fixed_tokens() == budget.corrected(fixed)
        assert budget.copy().fixed_tokens() == budget.fixed_tokens()

    @invariant()
    def everything_is_found_by_key_and_message(self) -> None:
        for source, root in self.budget.entries.items():
            for entry in root.walk():
                assert entry is root or self.budget.get_child(source, entry.key) is entry
                for message_id in entry.message_ids:
                    assert self.budget.entry_of(message_id) is entry


TestAnySequenceOfOperations = BudgetMachine.TestCase
TestAnySequenceOfOperations.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)


# --- costs ---


def calls_made_by(action: Callable[[], object]) -> int:
    """How many functions an action calls, of Python and of C."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    previous = sys.getprofile()
    gc.disable()  # callbacks of the garbage collector would be counted
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(previous)
        gc.enable()
    return calls


ACTIONS: dict[str, Callable[[InstructionBudget], object]] = {
    "total_tokens": InstructionBudget.total_tokens,
    "locked_tokens": InstructionBudget.locked_tokens,
    "gc_eligible_tokens": InstructionBudget.gc_eligible_tokens,
    "utilization_percent": InstructionBudget.utilization_percent,
    "source total": lambda budget: budget.entries[CONVERSATION].total_tokens(),
    "update_tokens": lambda budget: budget.update_tokens(CONVERSATION, 9, "turn_50"),
    "add_child": lambda budget: budget.add_child(CONVERSATION, "turn_50", 9, PARTIAL),
    "remove_child": lambda budget: budget.remove_child(CONVERSATION, "turn_50"),
    "entry_of": lambda budget: budget.entry_of("m50"),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS.keys())
def test_totals_and_changes_cost_the_same_for_100_and_10_000_entries(
    action: Callable[[InstructionBudget], object],
) -> None:
    costs = []
    for size in (100, 10_000):
        budget = InstructionBudget()
        for number in range(size):
            budget.add_child(CONVERSATION, f"turn_{number}", 1, PARTIAL, message_ids=[f"m{number}"])
        costs.append(calls_made_by(lambda: action(budget)))  # noqa: B023  called at once

    assert costs[0] == costs[1] > 0
