"""The budget of jaato-server, read with its own figures."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaato_host import ROOT, Message, budgets, call, conversation, gc, model, result, user

from jaato_gc import GCPolicy, InstructionSource
from jaato_gc.plugin import message_tokens
from jaato_gc_jaato._budget import HostBudget
from jaato_gc_jaato._messages import read_history
from jaato_gc_jaato._results import read_reason, write_reason

Source, Policy = budgets.InstructionSource, budgets.GCPolicy
CONVERSATION = InstructionSource.CONVERSATION
counts_wire = ROOT.startswith("jaato_server")
"""Whether this version knows what the provider reported and what the answer reserves."""


def host_budget(context_limit: int = 10_000) -> Any:
    return budgets.InstructionBudget.create_default("session", context_limit=context_limit)


def book(budget: Any, history: list[Any], tokens: int = 100, policy: Any = None) -> None:
    for place, message in enumerate(history):
        ids = [message.message_id]
        policy = policy or Policy.EPHEMERAL
        budget.add_child(Source.CONVERSATION, f"msg_{place}", tokens, policy, message_ids=ids)


def read(budget: Any, history: list[Any]) -> HostBudget:
    return HostBudget(budget, read_history(history, {}))


def test_totals_are_those_of_jaato_server() -> None:
    history = conversation(3)
    budget = host_budget()
    book(budget, history)
    budget.update_tokens(Source.SYSTEM, 700)
    budget.add_child(Source.PLUGIN, "a_tool", 50, Policy.LOCKED)
    budget.update_tokens(Source.PLUGIN, 9_999)  # not counted beside children
    budget.update_tokens(Source.THINKING, 5_000)  # output, not context

    ours = read(budget, history).ours

    assert ours.total_tokens() == budget.total_tokens() == 12 * 100 + 700 + 50
    assert ours.context_limit == 10_000


@pytest.mark.parametrize(
    ("policy", "read_as"),
    [
        ("LOCKED", GCPolicy.LOCKED),
        ("PRESERVABLE", GCPolicy.PRESERVABLE),
        ("PARTIAL", GCPolicy.PARTIAL),
        ("EPHEMERAL", GCPolicy.EPHEMERAL),
        ("CONDITIONAL", GCPolicy.EPHEMERAL),
    ],
)
def test_every_policy_is_read(policy: str, read_as: GCPolicy) -> None:
    history = [user("Hello.")]
    budget = host_budget()
    book(budget, history, policy=Policy[policy])

    entry = read(budget, history).ours.entry_of(history[0].message_id)

    assert entry is not None
    assert entry.gc_policy is read_as


def test_every_member_of_the_enums_of_jaato_server_is_known() -> None:
    assert {each.name for each in Policy} - {*GCPolicy.__members__} == {"CONDITIONAL"}
    assert {each.name for each in Source} - {*InstructionSource.__members__} == {"THINKING"}


def test_an_unknown_policy_of_a_later_jaato_server_is_not_removed_first() -> None:
    history = [user("Hello.")]
    budget = host_budget()
    book(budget, history, policy=SimpleNamespace(value="new"))

    entry = read(budget, history).ours.entry_of(history[0].message_id)

    assert entry is not None
    assert entry.gc_policy is GCPolicy.PRESERVABLE


def test_an_entry_is_as_strict_as_the_strictest_below_it() -> None:
    history = conversation(1)
    budget = host_budget()
    turn = budget.add_child(Source.CONVERSATION, "turn_0", 0, Policy.PARTIAL)
    for place, message in enumerate(history):
        policy = Policy.LOCKED if place == 2 else Policy.EPHEMERAL
        entry = budgets.SourceEntry(Source.CONVERSATION, 10, policy)
        entry.message_ids = [message.message_id]
        turn.children[f"msg_{place}"] = entry

    ours = read(budget, history).ours

    entry = ours.get_child(CONVERSATION, "turn_0")
    assert entry is not None
    assert entry.gc_policy is GCPolicy.LOCKED
    assert entry.total_tokens() == 40
    assert len(entry.message_ids) == 4


def test_enrichment_may_be_removed_and_tool_schemas_may_not() -> None:
    ours = read(host_budget(), []).ours

    assert ours.collectable_sources == {CONVERSATION, InstructionSource.ENRICHMENT}


@pytest.mark.skipif(not counts_wire, reason="only versions from 1.0 on have effective figures")
def test_effective_totals_and_limits_decide() -> None:
    history = conversation(3)
    budget = host_budget(10_000)
    book(budget, history)
    budget.reserved_output = 4_000
    budget.calibrate(2_400)  # twice what was counted

    ours = read(budget, history).ours

    assert ours.utilization_percent() == pytest.approx(budget.utilization_percent())
    assert ours.total_tokens() == 1_200
    assert ours.context_limit == 3_000


@pytest.mark.skipif(not counts_wire, reason="only versions from 1.0 on have effective figures")
def test_a_reservation_of_the_whole_window_leaves_no_room() -> None:
    budget = host_budget(10_000)
    budget.reserved_output = 10_000

    assert read(budget, []).ours.context_limit == 1


def test_an_unknown_window_stays_unknown() -> None:
    assert read(host_budget(0), []).ours.context_limit == 0


@given(st.lists(st.integers(0, 3_000), min_size=4, max_size=4), st.integers(0, 5_000))
def test_what_is_booked_together_is_divided_without_a_rest(figures: list[int], pooled: int) -> None:
    """After a collection, jaato-server books all that was written in one entry."""
    history = [*conversation(1), user("Written by a collection."), user("Another one." * 9)]
    budget = host_budget()
    for message, tokens in zip(history, figures, strict=False):
        key, ids = f"msg_{message.message_id}", [message.message_id]
        budget.add_child(Source.CONVERSATION, key, tokens, Policy.EPHEMERAL, message_ids=ids)
    budget.add_child(Source.CONVERSATION, "gc_summary_1", pooled, Policy.PRESERVABLE)

    host = read(budget, history)

    assert host.ours.total_tokens() == budget.total_tokens()
    under = host.booked_under(read_history(history, {})[5:])
    assert list(under) == ["gc_summary_1"]


def test_counting_follows_the_figures_of_jaato_server() -> None:
    history = [user("x" * 1_000), call("1"), result("1", "y" * 1_000), model("z" * 1_000)]
    budget = host_budget()
    book(budget, history, tokens=500)  # two characters per token

    counter = read(budget, history).ours.counter

    assert counter.count_text("w" * 800) == 400


def test_what_is_appended_to_results_for_the_model_does_not_change_the_size_of_a_token() -> None:
    answer = result("1", "y" * 1_000, model_suffix="z" * 4_000)
    history = [user("x" * 1_000), call("1"), answer]
    budget = host_budget()
    for message, tokens in zip(history, (250, 0, 1_250), strict=True):
        key, ids = f"msg_{tokens}", [message.message_id]
        budget.add_child(Source.CONVERSATION, key, tokens, Policy.EPHEMERAL, message_ids=ids)

    counter = read(budget, history).ours.counter

    assert counter.count_text("w" * 800) == 200
    [*_, ours] = read_history(history, {})
    expected = 252 + 1_000 if counts_wire else 252
    assert message_tokens(ours, counter) == expected


def test_reasons_are_converted_by_value() -> None:
    reasons = gc.GCTriggerReason
    unlike = {reasons.MEDIA_PRESSURE}

    for reason in set(reasons) - unlike:
        assert write_reason(read_reason(reason), gc) is reason
    assert all(read_reason(each).value == "threshold" for each in unlike)


def test_messages_of_one_entry_that_stay_are_reported_as_remaining() -> None:
    """jaato-server can only drop whole entries: the rest is added again."""
    history = [user(f"Request {n}: {'word ' * 200}") for n in range(20)]
    budget = host_budget(6_000)
    for place in range(0, 20, 10):
        ids = [message.message_id for message in history[place : place + 10]]
        key = f"part_{place}"
        budget.add_child(Source.CONVERSATION, key, 2_700, Policy.EPHEMERAL, message_ids=ids)
    before = budget.total_tokens()
    plugin = gc.load_gc_plugin("gc_jg_truncate", {"target_percent": 60.0})
    config = gc.GCConfig(pressure_percent=90.0, preserve_recent_turns=2)
    usage = {"percent_used": 90.0, "total_tokens": before, "context_limit": 6_000}

    left, collected = plugin.collect(history, usage, config, gc.GCTriggerReason.THRESHOLD, budget)

    assert collected.success, collected.error
    assert all(isinstance(message, Message) for message in left)
    removed = sum(item.tokens_freed for item in collected.removal_list)
    remaining = collected.details["summary_tokens"]
    assert before - removed + remaining == collected.tokens_after
    assert 3_000 < collected.tokens_after <= 3_600
