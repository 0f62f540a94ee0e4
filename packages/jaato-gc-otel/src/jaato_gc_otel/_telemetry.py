"""Records every collection as an OpenTelemetry span and as metrics, without any content."""

import functools
import re
import time
from collections import Counter

from opentelemetry import metrics, trace
from opentelemetry.util.types import AttributeValue

from jaato_gc import GCConfig, GCResult
from jaato_gc.plugin import hookimpl
from jaato_gc_otel._version import __version__

SCOPE = "jaato_gc"
"""The instrumentation scope of the spans and metrics."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Telemetry:
    """Records collections as spans and metrics.

    The installed plugin uses the process's global providers. To use other providers, register an
    instance with the session's registry, and block the installed plugin::

        registry = PluginRegistry()
        registry.register(Telemetry(my_tracer_provider, my_meter_provider), "telemetry")

    Args:
        tracer_provider: Receives the spans. Default: the global provider.
        meter_provider: Receives the metrics. Default: the global provider.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(SCOPE, __version__, meter_provider)
        self._collections = meter.create_counter(
            "jaato_gc.collections", "{collection}", "Collections, by strategy, trigger and outcome"
        )
        self._freed = meter.create_counter(
            "jaato_gc.tokens.freed", "{token}", "Tokens freed by collections"
        )
        self._rewritten = meter.create_counter(
            "jaato_gc.cache.rewritten",
            "{token}",
            "Tokens that the first request after a collection writes to the prompt cache again",
        )
        self._items = meter.create_counter(
            "jaato_gc.items", "{item}", "Items in the removal lists, by reason and action"
        )
        self._duration = meter.create_histogram("jaato_gc.duration", "s", "Duration of collections")
        self._crossings = meter.create_counter(
            "jaato_gc.thresholds.crossed",
            "{crossing}",
            "Turns in which usage crossed the threshold",
        )

    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, agent_id: str, seconds: float) -> None:
        """Records the span and the metrics of a collection."""
        labels = {
            "jaato_gc.strategy": _safe_name(result.plugin_name),
            "jaato_gc.trigger": result.trigger_reason.value,
            "jaato_gc.outcome": result.outcome.value if result.outcome else "unknown",
            "jaato_gc.agent": agent_id,
        }
        self._record_span(result, {**labels, **_figures(result)}, seconds)
        self._collections.add(1, labels)
        self._freed.add(result.tokens_freed, labels)
        self._duration.record(seconds, labels)
        if result.cache is not None and result.cache.first_changed is not None:
            self._rewritten.add(result.cache.rewritten_tokens, labels)
        items = Counter((_safe_name(item.reason), item.action) for item in result.removal_list)
        for (reason, action), count in items.items():
            self._items.add(count, {**labels, "jaato_gc.reason": reason, "jaato_gc.action": action})

    @hookimpl
    def jaato_gc_strategy_set(self, strategy: str | None, config: GCConfig, agent_id: str) -> None:
        """Records a span without duration. Options of the strategy are left out: they are text."""
        attributes: dict[str, AttributeValue] = {
            "jaato_gc.strategy": _safe_name(strategy or "none"),
            "jaato_gc.agent": agent_id,
            "jaato_gc.threshold_percent": config.threshold_percent,
            "jaato_gc.target_percent": config.target_percent,
            "jaato_gc.pressure_percent": config.pressure_percent or 0.0,
        }
        now = time.time_ns()
        self._tracer.start_span("jaato_gc.strategy_set", attributes=attributes, start_time=now).end(
            now
        )

    @hookimpl
    def jaato_gc_threshold_crossed(self, agent_id: str) -> None:
        """Counts that usage crossed the threshold within a turn."""
        self._crossings.add(1, {"jaato_gc.agent": agent_id})

    def _record_span(
        self, result: GCResult, attributes: dict[str, AttributeValue], seconds: float
    ) -> None:
        end = time.time_ns()
        span = self._tracer.start_span(
            "jaato_gc.collect", attributes=attributes, start_time=end - int(seconds * 1e9)
        )
        # The error text is left out, because it may quote content. The host's log has it.
        if not result.success:
            span.set_status(
                trace.Status(trace.StatusCode.ERROR, str(attributes["jaato_gc.outcome"]))
            )
        span.end(end)


def _figures(result: GCResult) -> dict[str, AttributeValue]:
    figures: dict[str, AttributeValue] = {
        "jaato_gc.tokens.before": result.tokens_before,
        "jaato_gc.tokens.after": result.tokens_after,
        "jaato_gc.tokens.freed": result.tokens_freed,
        "jaato_gc.tokens.confidence": result.confidence.value,
        "jaato_gc.items": result.items_collected,
    }
    reasons = Counter(_safe_name(item.reason) for item in result.removal_list)
    figures |= {f"jaato_gc.items.{reason}": count for reason, count in reasons.items()}
    if result.cache is not None:
        figures["jaato_gc.cache.prefix"] = result.cache.prefix_tokens
        figures["jaato_gc.cache.rewritten"] = result.cache.rewritten_tokens
    if result.shortfall is not None:
        figures["jaato_gc.tokens.missing"] = result.shortfall.missing_tokens
    return figures


def _safe_name(name: str) -> str:
    """Returns a plugin's name for something, or ``"other"`` if it is not an identifier.

    Free text could contain content of the conversation.
    """
    return name if _NAME.fullmatch(name) else "other"


@functools.cache
def default_telemetry() -> Telemetry:
    """Returns the instance of the installed plugin, which is created at the first collection."""
    return Telemetry()
