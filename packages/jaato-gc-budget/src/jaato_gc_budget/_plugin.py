"""gc_budget."""

from jaato_gc import GCTriggerReason
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, hookimpl
from jaato_gc_budget._phases import (
    hold_first_request,
    remove_enrichment,
    remove_ephemeral,
    remove_partial_turns,
    remove_preservable,
)


class BudgetSettings(StrategySettings):
    """Options of gc_budget: those that every strategy has."""


class BudgetGCPlugin(GCStrategy[BudgetSettings]):
    """Removes content by the policies of the budget, lowest priority first.

    Enrichment, then other EPHEMERAL entries, then turns, and PRESERVABLE entries under pressure. At
    last, old tool results inside the recent turns are shortened. LOCKED entries stay.
    """

    name = "gc_budget"
    settings_model = BudgetSettings

    def select(self, collection: Collection) -> None:
        """Removes by policy, phase by phase, then shortens old results of recent turns."""
        if collection.budget is None:  # without policies, the oldest turns go
            collection.remove_oldest(collection.turns, "truncated_fallback")
            collection.shorten_recent_results()
            collection.details["mode"] = "fallback_truncate"
            return
        hold_first_request(collection)
        phases = [remove_enrichment, remove_ephemeral, remove_partial_turns]
        if collection.reason is GCTriggerReason.TURN_LIMIT:
            phases = [remove_partial_turns]
        elif collection.under_pressure:
            phases.append(remove_preservable)
        for phase in phases:
            if collection.needs_more:
                phase(collection, collection.budget)
        collection.shorten_recent_results()
        collection.details.update(_breakdown(collection))


def _breakdown(collection: Collection) -> dict[str, object]:
    reasons = [item.reason for item in collection.items]
    return {
        "target_tokens": collection.goal.target_tokens,
        "tokens_to_free": collection.goal.tokens_to_free,
        "tokens_freed": collection.tokens_freed,
        "enrichment_cleared": "enrichment_bulk_clear" in reasons,
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
