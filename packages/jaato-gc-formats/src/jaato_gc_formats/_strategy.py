"""The strategy of a session: given, by its name, or the one that is installed."""

from jaato_gc import GCPluginError, PluginRegistry
from jaato_gc.plugin import GCPlugin


def find_strategy(strategy: str | GCPlugin | None, registry: PluginRegistry) -> GCPlugin:
    """Returns a strategy.

    Args:
        strategy: The strategy, or its name. ``None``: the one that is installed.
        registry: The registry that provides the strategies.

    Raises:
        GCPluginError: The strategy is unknown. Without a name: none is installed, or several.
    """
    if strategy is None:
        strategy = _installed(registry)
    return registry.create(strategy) if isinstance(strategy, str) else strategy


def _installed(registry: PluginRegistry) -> str:
    names = list(registry.strategies())
    if len(names) == 1:
        return names[0]
    if names:
        raise GCPluginError(
            f"{len(names)} strategies are installed: choose one with strategy=…, such as "
            f"strategy={names[0]!r} (installed: {', '.join(names)})"
        )
    raise GCPluginError(
        "no usable strategy is installed: pip install one such as jaato-gc-budget, or pass a "
        "strategy as strategy=…"
    )
