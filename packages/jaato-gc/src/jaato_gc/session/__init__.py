"""The session: when to collect, planning, applying, undo, saving, and turns with a provider."""

from jaato_gc.collecting import GCPlan as GCPlan
from jaato_gc.session.options import GCSessionOptions as GCSessionOptions
from jaato_gc.session.options import HostOptions as HostOptions
from jaato_gc.session.provider import Provider as Provider
from jaato_gc.session.provider import ToolHandler as ToolHandler
from jaato_gc.session.provider import UsageReport as UsageReport
from jaato_gc.session.provider import is_context_refusal as is_context_refusal
from jaato_gc.session.session import GCSession as GCSession
