"""gc_marksweep."""

from jaato_gc import (
    Collection,
    ContextUsage,
    GCConfig,
    GCPolicy,
    GCResult,
    GCStrategy,
    GCTriggerReason,
    Hold,
    InstructionBudget,
    Message,
    StrategyInfo,
    Turn,
    hookimpl,
)
from jaato_gc_marksweep._settings import MarkSweepSettings
from jaato_gc_marksweep._sweep import Sweep


class MarkSweepGCPlugin(GCStrategy[MarkSweepSettings]):
    """Clears tool output that is garbage, cheapest loss first; only then do exchanges go, by score.

    Dead results, the bodies of long ones, arguments of applied edits, stale reads; then old results
    and at last whole exchanges, in the order of the engine's marks and scores.
    """

    name = "gc_marksweep"
    settings_model = MarkSweepSettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = self.begin(history, context_usage, config, reason, budget)
        if reason is GCTriggerReason.TURN_LIMIT:
            collection.remove_oldest(_turns_that_may_end(collection), "truncated")
            return collection.finish()
        _keep_the_first_request(collection)
        sweep = Sweep(collection, budget, self.settings)
        for rung in (
            sweep.clear_garbage,
            sweep.clear_old_results,
            sweep.clear_recent_results,
            sweep.remove_groups,
        ):
            if collection.needs_more:
                rung()
        return collection.finish()


def _turns_that_may_end(collection: Collection) -> list[Turn]:
    """Without pressure, a turn in which something is dear stays, and stays whole."""
    dear = () if collection.under_pressure else (GCPolicy.PRESERVABLE,)
    return [
        turn for turn in collection.turns if not any(group.policy in dear for group in turn.groups)
    ]


def _keep_the_first_request(collection: Collection) -> None:
    """Groups go in any order, and a user message must come first."""
    for group in collection.turns[0].groups if collection.turns else ():
        if group.messages[0].opens_turn:
            group.hold = group.hold or Hold.FIRST_USER


def create_plugin() -> MarkSweepGCPlugin:
    """A new instance; call ``initialize`` with its options."""
    return MarkSweepGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    return [
        StrategyInfo(
            name=MarkSweepGCPlugin.name,
            factory=create_plugin,
            summary="Clears superseded, long and stale tool output, then sweeps by score.",
            config_model=MarkSweepSettings,
            budget_aware=True,
        )
    ]
