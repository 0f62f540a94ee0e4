"""gc_budget."""

from collections import Counter

from pydantic import PositiveInt

from jaato_gc import GCPolicy, GCTriggerReason, InstructionBudget
from jaato_gc.plugin import (
    REMOVABLE_POLICIES,
    Collection,
    GCStrategy,
    StrategyInfo,
    StrategySettings,
    hookimpl,
)
from jaato_gc_budget._phases import (
    BEFORE_TURNS,
    ages_of,
    hold_first_request,
    reason_of,
    remove_enrichment,
    remove_entries,
    remove_preservable,
    remove_turns,
    shorten_results,
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
        if collection.reason is GCTriggerReason.TURN_LIMIT:
            hold_first_request(collection, REMOVABLE_POLICIES)
            remove_turns(collection, REMOVABLE_POLICIES, recent=False)
        else:
            hold_first_request(collection)
            remove_enrichment(collection, budget)
            self._remove_by_policy(collection, budget)
        collection.details.update(_breakdown(collection))

    def _remove_by_policy(self, collection: Collection, budget: InstructionBudget) -> None:
        if not collection.needs_more:
            return
        ages = ages_of(collection)
        for recent in (False, True):  # recent content goes after all old content
            for policy in REMOVABLE_POLICIES:
                if policy in BEFORE_TURNS and not recent:
                    shorten_results(collection, ages, policy, self.settings.max_result_tokens)
                if not collection.needs_more:
                    return
                if policy is GCPolicy.PARTIAL:
                    remove_turns(collection, recent=recent)
                else:
                    remove_entries(collection, ages, budget, policy, recent=recent)
        if collection.needs_more and collection.under_pressure:
            remove_preservable(collection, ages, budget)


def _breakdown(collection: Collection) -> dict[str, object]:
    reasons = Counter(item.reason for item in collection.items)
    details: dict[str, object] = {
        "target_tokens": collection.goal.target_tokens,
        "tokens_to_free": collection.goal.tokens_to_free,
        "tokens_freed": collection.tokens_freed,
        "enrichment_cleared": "enrichment_bulk_clear" in reasons,
    }
    for policy in BEFORE_TURNS:
        shortened = (f"{policy}_repeated", f"{policy}_shortened")
        details[f"{policy}_shortened"] = sum(reasons[reason] for reason in shortened)
    for policy in (*REMOVABLE_POLICIES, GCPolicy.PRESERVABLE):
        details[f"{policy}_removed"] = reasons[reason_of(policy)]
    return details


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
