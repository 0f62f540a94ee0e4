"""The spans and metrics that the OpenTelemetry SDK receives."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)
from jaato_gc.plugin import Collection, GCStrategy, StrategySettings
from jaato_gc_otel import Telemetry
from jaato_gc_testing import new_session

SECRET = "hunter2 is the password"


class Oldest(GCStrategy[StrategySettings]):
    name = "gc_oldest"
    reason = "oldest_first"

    def select(self, collection: Collection) -> None:
        collection.remove_oldest(collection.turns[:1], self.reason)
        for group in collection.groups:
            if group.is_call:
                collection.shorten(group, "shortened")


class Failing(Oldest):
    def select(self, collection: Collection) -> None:
        raise ValueError(collection.history[0].text)  # an error that quotes content


class Talkative(Oldest):
    reason = f"because {SECRET}"


class Recorder:
    """A registry with a `Telemetry`, and the spans and metrics that it recorded."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.metrics = MeterProvider([self.reader])
        self.registry = PluginRegistry(load_installed=False)
        self.registry.register(Telemetry(traces, self.metrics), "telemetry")

    @property
    def spans(self) -> list[ReadableSpan]:
        return self.named("jaato_gc.collect")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[tuple[dict[str, Any], float]]:
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "sum", 0)))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def everything(self) -> str:
        data = self.reader.get_metrics_data()
        spans = self.exporter.get_finished_spans()
        return "".join(span.to_json() for span in spans) + (data.to_json() if data else "")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.metrics.shutdown()


def session_of(recorder: Recorder, plugin: Oldest, turns: int = 6) -> GCSession:
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0)
    session = new_session(
        plugin, config, registry=recorder.registry, agent_id="scout", context_limit=2_000
    )
    for number in range(turns):
        call = FunctionCall(f"c{number}", "look", {"at": SECRET})
        result = ToolResult(call.id, call.name, f"{number}: {SECRET} " * 20)
        session.append(Message.from_text(Role.USER, f"{SECRET}, {number}"))
        session.append(Message(Role.MODEL, [Part(function_call=call)]))
        session.append(Message(Role.TOOL, [Part(function_response=result)]))
        session.append(Message.from_text(Role.MODEL, f"I see: {SECRET}"))
    return session


def test_a_change_of_the_strategy_is_recorded_with_its_configuration(recorder: Recorder) -> None:
    session = session_of(recorder, Oldest())
    session.set_gc_plugin(Oldest(), GCConfig(threshold_percent=70.0, pressure_percent=None))
    session.remove_gc_plugin()

    changes = [dict(span.attributes or {}) for span in recorder.named("jaato_gc.strategy_set")]
    assert [each["jaato_gc.strategy"] for each in changes] == ["gc_oldest", "gc_oldest", "none"]
    assert changes[1] == {
        "jaato_gc.strategy": "gc_oldest",
        "jaato_gc.agent": "scout",
        "jaato_gc.threshold_percent": 70.0,
        "jaato_gc.target_percent": 60.0,
        "jaato_gc.pressure_percent": 0.0,
    }


def test_a_collection_is_recorded_as_a_span_with_the_figures_of_its_result(
    recorder: Recorder,
) -> None:
    session = session_of(recorder, Oldest())

    result = session.manual_gc(target_percent=1.0)

    [span] = recorder.spans
    assert span.name == "jaato_gc.collect"
    assert result.cache is not None
    assert result.shortfall is not None
    assert dict(span.attributes or {}) == {
        "jaato_gc.strategy": "gc_oldest",
        "jaato_gc.trigger": "manual",
        "jaato_gc.outcome": str(result.outcome),
        "jaato_gc.agent": "scout",
        "jaato_gc.tokens.before": result.tokens_before,
        "jaato_gc.tokens.after": result.tokens_after,
        "jaato_gc.tokens.freed": result.tokens_freed,
        "jaato_gc.tokens.confidence": "estimated",
        "jaato_gc.items": len(result.removal_list),
        "jaato_gc.items.oldest_first": sum(
            item.reason == "oldest_first" for item in result.removal_list
        ),
        "jaato_gc.items.shortened": sum(item.reason == "shortened" for item in result.removal_list),
        "jaato_gc.cache.prefix": result.cache.prefix_tokens,
        "jaato_gc.cache.rewritten": result.cache.rewritten_tokens,
        "jaato_gc.tokens.missing": result.shortfall.missing_tokens,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.start_time is not None
    assert span.end_time is not None
    assert 0 < span.end_time - span.start_time < 60e9


def test_metrics_add_up_over_collections(recorder: Recorder) -> None:
    session = session_of(recorder, Oldest())
    results = [session.manual_gc(target_percent=30.0), session.manual_gc(target_percent=1.0)]

    assert sum(value for _, value in recorder.points("jaato_gc.collections")) == 2
    freed = sum(value for _, value in recorder.points("jaato_gc.tokens.freed"))
    assert freed == sum(result.tokens_freed for result in results)
    items = recorder.points("jaato_gc.items")
    assert sum(value for _, value in items) == sum(len(each.removal_list) for each in results)
    assert {labels["jaato_gc.action"] for labels, _ in items} == {"remove", "shorten"}
    rewritten = sum(value for _, value in recorder.points("jaato_gc.cache.rewritten"))
    assert rewritten == sum(each.cache.rewritten_tokens for each in results if each.cache)
    [(labels, seconds), *_] = recorder.points("jaato_gc.duration")
    assert (labels["jaato_gc.strategy"], labels["jaato_gc.trigger"]) == ("gc_oldest", "manual")
    assert seconds > 0


def test_the_span_of_a_failed_collection_has_error_status_without_the_error_text(
    recorder: Recorder,
) -> None:
    session = session_of(recorder, Failing())

    result = session.manual_gc()

    assert SECRET in str(result.error)  # the host may see it
    [span] = recorder.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "failed"


@pytest.mark.parametrize("plugin", [Oldest, Failing, Talkative])
def test_no_content_is_recorded(recorder: Recorder, plugin: type[Oldest]) -> None:
    session = session_of(recorder, plugin())
    session.manual_gc(target_percent=1.0)
    session.before_send()
    session.report_usage(1_900)
    session.after_turn()

    assert recorder.spans
    assert "hunter2" not in recorder.everything()


def test_a_crossed_threshold_is_counted(recorder: Recorder) -> None:
    session = session_of(recorder, Oldest(), turns=5)
    session.before_send()
    session.report_usage(1_900)

    assert recorder.points("jaato_gc.thresholds.crossed") == [({"jaato_gc.agent": "scout"}, 1)]


def test_the_installed_plugin_records_with_the_global_providers() -> None:
    program = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from jaato_gc import GCSession, Message, Role
from jaato_gc_testing import NoGCPlugin

session = GCSession(context_limit=1000)
session.set_gc_plugin(NoGCPlugin())
session.append(Message.from_text(Role.USER, "hello"))
session.manual_gc()  # no provider is set up: nothing is recorded

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
session.manual_gc()
print(json.dumps([span.name for span in spans.get_finished_spans()]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == ["jaato_gc.collect"]
