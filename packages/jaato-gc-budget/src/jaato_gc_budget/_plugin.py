"""gc_budget."""

from jaato_gc import (
    Collection,
    ContextUsage,
    GCConfig,
    GCResult,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    Message,
    StrategyInfo,
    StrategySettings,
    hookimpl,
)
from jaato_gc_budget._phases import (
    clear_enrichment,
    keep_a_user_message_first,
    remove_ephemeral,
    remove_partial_turns,
    remove_preservable,
)


class BudgetSettings(StrategySettings):
    """Options of gc_budget: those that every strategy has."""


class BudgetGCPlugin(GCStrategy[BudgetSettings]):
    """Removes what is least dear by the budget's policies, phase by phase.

    Enrichment, then other EPHEMERAL entries, then turns, and under pressure PRESERVABLE ones; last,
    old tool results inside the recent turns are cleared. LOCKED entries stay.
    """

    name = "gc_budget"
    settings_model = BudgetSettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = self.begin(history, context_usage, config, reason, budget)
        if budget is None:
            return _truncate_instead(collection)
        keep_a_user_message_first(collection)
        phases = [clear_enrichment, remove_ephemeral, remove_partial_turns]
        if reason is GCTriggerReason.TURN_LIMIT:
            phases = [remove_partial_turns]
        elif collection.under_pressure:
            phases.append(remove_preservable)
        for phase in phases:
            if collection.needs_more:
                phase(collection, budget)
        collection.clear_recent_results()
        remaining, result = collection.finish()
        result.details |= _breakdown(collection, result)
        return remaining, result


def _truncate_instead(collection: Collection) -> tuple[list[Message], GCResult]:
    """Without a budget there are no policies to go by: the oldest turns go."""
    collection.remove_oldest(collection.turns, "truncated_fallback")
    collection.clear_recent_results()
    remaining, result = collection.finish()
    result.details["mode"] = "fallback_truncate"
    return remaining, result


def _breakdown(collection: Collection, result: GCResult) -> dict[str, object]:
    reasons = [item.reason for item in result.removal_list]
    return {
        "target_tokens": collection.goal.target_tokens,
        "tokens_to_free": collection.goal.tokens_to_free,
        "tokens_freed": result.tokens_freed,
        "enrichment_cleared": "enrichment_bulk_clear" in reasons,
        "ephemeral_removed": reasons.count("ephemeral"),
        "partial_removed": reasons.count("partial_turn"),
        "preservable_removed": reasons.count("preservable_under_pressure"),
    }


def create_plugin() -> BudgetGCPlugin:
    """A new instance; call ``initialize`` with its options."""
    return BudgetGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    return [
        StrategyInfo(
            name=BudgetGCPlugin.name,
            factory=create_plugin,
            summary="Removes by policy, the least dear first.",
            config_model=BudgetSettings,
            budget_aware=True,
        )
    ]
