"""A strategy that follows the algorithm of the seeds' integration design works in a session.

The algorithm is read from the document, which only sketches its helper methods: those are here.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from seed_documents import Seeds, run

from jaato_gc import (
    ContextUsage,
    GCConfig,
    GCOutcome,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Role,
    SourceEntry,
    count_tokens,
    split_into_turns,
)
from jaato_gc.plugin import should_collect

CONVERSATION = InstructionSource.CONVERSATION
TURNS = 120


class DocumentPlugin:
    """A plugin in the form of the document: any object with these methods."""

    name: str
    collect: Any

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Has no options."""

    def shutdown(self) -> None:
        """Has no resources."""

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Leaves the decision to core."""
        return should_collect(context_usage, config)


class BudgetAlgorithm(DocumentPlugin):
    """The document's ``collect``: items have keys of the budget, and no message ids."""

    name = "gc_by_the_document"
    _apply_removals_to_history: Any

    def _get_ephemeral_candidates(
        self, budget: InstructionBudget, exclude_enrichment: bool
    ) -> list[SourceEntry]:
        assert exclude_enrichment
        return [entry for _, entry in entries_with(budget, GCPolicy.EPHEMERAL)]

    def _get_partial_turn_candidates(
        self, budget: InstructionBudget, config: GCConfig
    ) -> list[tuple[str, SourceEntry]]:
        turns = list(entries_with(budget, GCPolicy.PARTIAL))
        return turns[: -config.preserve_recent_turns]

    def _get_preservable_candidates(self, budget: InstructionBudget) -> list[SourceEntry]:
        return [entry for _, entry in entries_with(budget, GCPolicy.PRESERVABLE)]


def entries_with(budget: InstructionBudget, policy: GCPolicy) -> Iterator[tuple[str, SourceEntry]]:
    """Yields the entries of the conversation under a policy, oldest first."""
    conversation = budget.get_entry(CONVERSATION)
    assert conversation
    children = sorted(conversation.children.items(), key=lambda pair: pair[1].created_at)
    return ((key, entry) for key, entry in children if entry.gc_policy is policy)


@pytest.fixture
def plugin(seeds: Seeds) -> BudgetAlgorithm:
    """The document's two functions, with the arguments that it abbreviates filled in."""
    [algorithm] = [block for block in seeds.blocks if "_get_ephemeral_candidates(" in block]
    nothing = "items_collected=0, tokens_before=current_tokens, tokens_after=current_tokens, "
    nothing += "plugin_name=self.name, trigger_reason=reason"
    algorithm = re.sub(r"items_collected=0, \.\.\.", nothing, algorithm)
    remove = run(seeds["removal by entry"])["_apply_removals_to_history"]
    methods = {"collect": run(algorithm)["collect"], "_apply_removals_to_history": remove}
    made: BudgetAlgorithm = type("Algorithm", (BudgetAlgorithm,), methods)()
    return made


def test_every_collection_over_120_turns_is_the_plugins_own(plugin: BudgetAlgorithm) -> None:
    results = results_of_turns(plugin)

    keys = [item.child_key for result in results for item in result.removal_list]
    assert len(set(keys)) == len(keys), "keys of the budget are never used again"


class RemovesTheOldestTurns(DocumentPlugin):
    """Counts turns from the oldest that is left, as the document's strategies without a budget."""

    name = "gc_by_position"

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,  # noqa: ARG002
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        assert budget
        turns = split_into_turns(history)
        gone = turns[1 : len(turns) // 2]  # the first request is LOCKED
        left = [message for turn in turns if turn not in gone for message in turn.messages]
        total = context_usage["total_tokens"]
        items = [
            GCRemovalItem(CONVERSATION, f"turn_{turn.index}", turn.estimated_tokens, "partial_turn")
            for turn in gone
        ]
        result = GCResult(
            success=True,
            items_collected=len(items),
            tokens_before=total,
            tokens_after=total,
            plugin_name=self.name,
            trigger_reason=reason,
            removal_list=items,
        )
        return left, result


def test_keys_that_are_positions_are_understood_too() -> None:
    results_of_turns(RemovesTheOldestTurns())


def results_of_turns(plugin: DocumentPlugin) -> list[GCResult]:
    """Returns the results of a session of many turns, which all must be the plugin's own."""
    session = GCSession(context_limit=3_000, keep_collections=TURNS)
    session.set_gc_plugin(plugin, GCConfig(threshold_percent=70.0))

    for turn in range(TURNS):
        session.append(Message.from_text(Role.USER, f"Question {turn}: " + "why is it so? " * 8))
        session.before_send()
        session.append(Message.from_text(Role.MODEL, f"Answer {turn}: " + "because of that. " * 8))
        session.after_turn()

    results = session.get_gc_history()
    assert len(results) > 5
    assert {result.outcome for result in results} == {GCOutcome.REACHED}, results
    assert {result.plugin_name for result in results} == {plugin.name}
    assert all(item.reason == "partial_turn" for r in results for item in r.removal_list)
    assert session.budget.counted_tokens() == count_tokens(session.history, session.budget.counter)
    return results
