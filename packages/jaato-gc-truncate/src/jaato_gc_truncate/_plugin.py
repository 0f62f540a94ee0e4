"""gc_truncate."""

from jaato_gc.plugin import Collection, GCStrategy, StrategyInfo, StrategySettings, hookimpl


class TruncateSettings(StrategySettings):
    """Options of gc_truncate."""

    to_target: bool = True
    """False: every collection removes all old turns and calls, not just enough for the target."""


class TruncateGCPlugin(GCStrategy[TruncateSettings]):
    """Removes the oldest turns until the goal is reached, then old calls of recent turns."""

    name = "gc_truncate"
    settings_model = TruncateSettings

    def select(self, collection: Collection) -> None:
        """Removes the oldest turns, then old calls of recent turns."""
        collection.remove_oldest(collection.turns, "truncated", to_goal=self.settings.to_target)


def create_plugin() -> TruncateGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return TruncateGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_truncate."""
    return [
        StrategyInfo(
            name=TruncateGCPlugin.name,
            factory=create_plugin,
            summary="Removes the oldest turns until enough is free.",
            config_model=TruncateSettings,
        )
    ]
