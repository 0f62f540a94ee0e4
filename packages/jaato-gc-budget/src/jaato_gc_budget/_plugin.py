"""gc_budget."""

from pydantic import PositiveInt

from jaato_gc import GCTriggerReason, InstructionBudget
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, hookimpl
from jaato_gc_budget._phases import (
    ages_of,
    hold_first_request,
    remove_enrichment,
    remove_ephemeral,
    remove_old_turns,
    remove_preservable,
    remove_recent_calls,
    shorten_ephemeral,
)


class BudgetSettings(StrategySettings):
    """Options of gc_budget."""

    max_result_tokens: PositiveInt = 2_000
    """Longer results of old calls are shortened to head and tail."""


class BudgetGCPlugin(GCStrategy[BudgetSettings]):
    """Removes content by the policies of the budget, lowest priority first.

    Enrichment, then other EPHEMERAL entries: lines of results that occur again later, the middle of
    long results, whole calls. Then turns, and PRESERVABLE entries under pressure. Recent turns come
    after old ones, and LOCKED entries stay. A ledger lists what removed calls were about.
    """

    name = "gc_budget"
    settings_model = BudgetSettings

    def select(self, collection: Collection) -> None:
        """Removes by policy, phase by phase."""
        collection.leave_ledger()
        budget = collection.budget
        if budget is None:  # without policies, the oldest turns go
            collection.remove_oldest(collection.turns, "truncated_fallback")
            collection.details["mode"] = "fallback_truncate"
            return
        hold_first_request(collection)
        if collection.reason is GCTriggerReason.TURN_LIMIT:
            remove_old_turns(collection)
        else:
            remove_enrichment(collection, budget)
            if collection.needs_more:
                self._remove_by_age(collection, budget)
        collection.details.update(_breakdown(collection))

    def _remove_by_age(self, collection: Collection, budget: InstructionBudget) -> None:
        ages = ages_of(collection)
        shorten_ephemeral(collection, ages, self.settings.max_result_tokens)
        if collection.needs_more:
            remove_ephemeral(collection, ages, budget, recent=False)
        if collection.needs_more:
            remove_old_turns(collection)
        if collection.needs_more:
            remove_ephemeral(collection, ages, budget, recent=True)
        if collection.needs_more:
            remove_recent_calls(collection)
        if collection.needs_more and collection.under_pressure:
            remove_preservable(collection, ages, budget)


def _breakdown(collection: Collection) -> dict[str, object]:
    reasons = [item.reason for item in collection.items]
    return {
        "target_tokens": collection.goal.target_tokens,
        "tokens_to_free": collection.goal.tokens_to_free,
        "tokens_freed": collection.tokens_freed,
        "enrichment_cleared": "enrichment_bulk_clear" in reasons,
        "ephemeral_shortened": sum(each.startswith("ephemeral_") for each in reasons),
        "ephemeral_removed": reasons.count("ephemeral"),
        "partial_removed": reasons.count("partial_turn"),
        "preservable_removed": reasons.count("preservable_under_pressure"),
    }


def create_plugin() -> BudgetGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return BudgetGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_budget."""
    return [
        StrategyInfo(
            name=BudgetGCPlugin.name,
            factory=create_plugin,
            summary="Removes content by policy, lowest priority first.",
            config_model=BudgetSettings,
            budget_aware=True,
        )
    ]
