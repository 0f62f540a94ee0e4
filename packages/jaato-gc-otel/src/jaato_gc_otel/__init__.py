"""OpenTelemetry spans and metrics for every collection, without any content."""

from jaato_gc import GCConfig, GCResult
from jaato_gc.plugin import hookimpl
from jaato_gc_otel._telemetry import SCOPE, Telemetry, default_telemetry
from jaato_gc_otel._version import __version__

__all__ = [
    "SCOPE",
    "Telemetry",
    "__version__",
    "jaato_gc_after_collect",
    "jaato_gc_strategy_set",
    "jaato_gc_threshold_crossed",
]


@hookimpl
def jaato_gc_after_collect(result: GCResult, agent_id: str, seconds: float) -> None:
    """Records a collection with the process's global providers."""
    default_telemetry().jaato_gc_after_collect(result, agent_id, seconds)


@hookimpl
def jaato_gc_strategy_set(strategy: str | None, config: GCConfig, agent_id: str) -> None:
    """Records a strategy and its configuration with the process's global providers."""
    default_telemetry().jaato_gc_strategy_set(strategy, config, agent_id)


@hookimpl
def jaato_gc_threshold_crossed(agent_id: str) -> None:
    """Records a crossed threshold with the process's global providers."""
    default_telemetry().jaato_gc_threshold_crossed(agent_id)
