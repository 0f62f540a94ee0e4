"""gc_marksweep."""

from jaato_gc import GCPolicy, GCTriggerReason
from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, Turn, hookimpl
from jaato_gc_marksweep._settings import MarkSweepSettings
from jaato_gc_marksweep._sweep import Sweep


class MarkSweepGCPlugin(GCStrategy[MarkSweepSettings]):
    """Shortens tool output that is garbage, cheapest loss first, then removes groups by age.

    Dead results and repeated lines, then the middle of long results; then whole groups, those whose
    files were touched least recently first, which a ledger lists.
    """

    name = "gc_marksweep"
    settings_model = MarkSweepSettings

    def select(self, collection: Collection) -> None:
        """Sweeps rung by rung until the goal is reached."""
        if collection.reason is GCTriggerReason.TURN_LIMIT:
            collection.remove_oldest(_turns_that_may_end(collection), "truncated")
            return
        _hold_first_request(collection)
        collection.leave_ledger()
        sweep = Sweep(collection, self.settings)
        for rung in (
            sweep.shorten_dead_results,
            sweep.shorten_long_results,
            sweep.remove_groups,
        ):
            if collection.needs_more:
                rung()


def _turns_that_may_end(collection: Collection) -> list[Turn]:
    """Returns the turns without PRESERVABLE content; under pressure, all turns."""
    kept = () if collection.under_pressure else (GCPolicy.PRESERVABLE,)
    return [
        turn for turn in collection.turns if not any(group.policy in kept for group in turn.groups)
    ]


def _hold_first_request(collection: Collection) -> None:
    """Holds the first request: groups go in any order, and a user message must come first.

    Where each turn is one group, as in the budget of some hosts, any of them may come first.
    """
    if all(len(turn.groups) == 1 for turn in collection.turns):
        return
    for group in collection.turns[0].groups:
        if group.opens_turn:
            collection.hold(group)


def create_plugin() -> MarkSweepGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return MarkSweepGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_marksweep."""
    return [
        StrategyInfo(
            name=MarkSweepGCPlugin.name,
            factory=create_plugin,
            summary="Shortens superseded, repeated and long tool output, then sweeps by last use.",
            config_model=MarkSweepSettings,
            budget_aware=True,
        )
    ]
