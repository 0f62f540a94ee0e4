"""Every collection as an OpenTelemetry span and as metrics: figures and kinds, never content."""

import functools
import re
import time
from collections import Counter

from opentelemetry import metrics, trace
from opentelemetry.util.types import AttributeValue

from jaato_gc import GCResult, hookimpl
from jaato_gc_otel._version import __version__

SCOPE = "jaato_gc"
"""The name that spans and metrics are recorded under."""

_KIND = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Telemetry:
    """Records collections.

    The installed plugin uses the process's global providers. To record elsewhere, register one of
    your own with a session's registry, and block the installed one::

        registry = PluginRegistry()
        registry.register(Telemetry(my_tracer_provider, my_meter_provider), "telemetry")

    Args:
        tracer_provider: Where spans go; the global one if not given.
        meter_provider: Where metrics go; the global one if not given.
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
            "jaato_gc.tokens.freed", "{token}", "Tokens that collections freed"
        )
        self._rewritten = meter.create_counter(
            "jaato_gc.cache.rewritten",
            "{token}",
            "Tokens that the next request after a collection writes to the prompt cache anew",
        )
        self._items = meter.create_counter(
            "jaato_gc.items", "{item}", "Things that collections took, by reason and action"
        )
        self._duration = meter.create_histogram(
            "jaato_gc.duration", "s", "How long collections took"
        )
        self._crossings = meter.create_counter(
            "jaato_gc.thresholds.crossed",
            "{crossing}",
            "Times that usage crossed the threshold while an answer streamed",
        )

    @hookimpl
    def jaato_gc_after_collect(self, result: GCResult, agent_id: str, seconds: float) -> None:
        """Record a collection."""
        kinds = {
            "jaato_gc.strategy": _kind(result.plugin_name),
            "jaato_gc.trigger": result.trigger_reason.value,
            "jaato_gc.outcome": result.outcome.value if result.outcome else "unknown",
            "jaato_gc.agent": agent_id,
        }
        self._record_span(result, {**kinds, **_figures(result)}, seconds)
        self._collections.add(1, kinds)
        self._freed.add(result.tokens_freed, kinds)
        self._duration.record(seconds, kinds)
        if result.cache is not None and result.cache.first_changed is not None:
            self._rewritten.add(result.cache.rewritten_tokens, kinds)
        taken = Counter((_kind(item.reason), item.action) for item in result.removal_list)
        for (reason, action), count in taken.items():
            self._items.add(count, {**kinds, "jaato_gc.reason": reason, "jaato_gc.action": action})

    @hookimpl
    def jaato_gc_threshold_crossed(self, agent_id: str) -> None:
        """Record that the window filled up within a turn."""
        self._crossings.add(1, {"jaato_gc.agent": agent_id})

    def _record_span(
        self, result: GCResult, attributes: dict[str, AttributeValue], seconds: float
    ) -> None:
        end = time.time_ns()
        span = self._tracer.start_span(
            "jaato_gc.collect", attributes=attributes, start_time=end - int(seconds * 1e9)
        )
        if not result.success:  # the cause may quote content: it is in the host's own log
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
    reasons = Counter(_kind(item.reason) for item in result.removal_list)
    figures |= {f"jaato_gc.items.{reason}": count for reason, count in reasons.items()}
    if result.cache is not None:
        figures["jaato_gc.cache.prefix"] = result.cache.prefix_tokens
        figures["jaato_gc.cache.rewritten"] = result.cache.rewritten_tokens
    if result.shortfall is not None:
        figures["jaato_gc.tokens.missing"] = result.shortfall.missing_tokens
    return figures


def _kind(name: str) -> str:
    """A name that a plugin chose, if it is one: a sentence could hold anything."""
    return name if _KIND.fullmatch(name) else "other"


@functools.cache
def default_telemetry() -> Telemetry:
    """What the installed plugin records with, made at the first collection."""
    return Telemetry()
