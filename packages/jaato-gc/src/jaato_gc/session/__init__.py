"""The session: when to collect, planning, applying, undo, saving, and turns with a provider."""

from jaato_gc.collecting import GCPlan
from jaato_gc.session.options import GCSessionOptions, HostOptions
from jaato_gc.session.provider import Provider, ToolHandler, UsageReport, is_context_refusal
from jaato_gc.session.session import GCSession

__all__ = [
    "GCPlan",
    "GCSession",
    "GCSessionOptions",
    "HostOptions",
    "Provider",
    "ToolHandler",
    "UsageReport",
    "is_context_refusal",
]
