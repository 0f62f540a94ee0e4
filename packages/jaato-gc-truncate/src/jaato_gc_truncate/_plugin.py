"""gc_truncate."""

from jaato_gc import (
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


class TruncateSettings(StrategySettings):
    """Options of gc_truncate."""

    to_target: bool = True
    """False: every collection removes all that may go, not just enough to reach the target."""


class TruncateGCPlugin(GCStrategy[TruncateSettings]):
    """Removes the oldest turns that nothing protects, whole, until the goal is reached.

    If that is not enough, old tool results inside the recent turns are cleared.
    """

    name = "gc_truncate"
    settings_model = TruncateSettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        everything = not self.settings.to_target
        collection = self.begin(
            history, context_usage, config, reason, budget, everything=everything
        )
        collection.remove_oldest(collection.turns, "truncated")
        collection.clear_recent_results()
        return collection.finish()


def create_plugin() -> TruncateGCPlugin:
    """A new instance; call ``initialize`` with its options."""
    return TruncateGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    return [
        StrategyInfo(
            name=TruncateGCPlugin.name,
            factory=create_plugin,
            summary="Removes the oldest turns until enough is free.",
            config_model=TruncateSettings,
        )
    ]
