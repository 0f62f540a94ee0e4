"""The plugin, as a module and as an object, passes the conformance suite for observers."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

import jaato_gc_otel
from jaato_gc_testing import ObserverConformance


class TestModule(ObserverConformance):
    """The installed plugin, with the process's global providers."""

    @staticmethod
    def factory() -> object:
        return jaato_gc_otel


class TestTelemetry(ObserverConformance):
    @staticmethod
    def factory() -> object:
        return jaato_gc_otel.Telemetry(TracerProvider(), MeterProvider())
