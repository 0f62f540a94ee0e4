"""The sources of a context and the policies that decide what a collection may remove."""

from enum import StrEnum


class GCPolicy(StrEnum):
    """When a collection may remove something, from never to first."""

    LOCKED = "locked"
    """Never removed: system instructions, the original request, core tool schemas."""
    PRESERVABLE = "preservable"
    """Removed only under pressure: clarifications, summaries."""
    PARTIAL = "partial"
    """Removed after everything ephemeral; a container is partial when its children differ."""
    EPHEMERAL = "ephemeral"
    """Removed first: enrichment, discoverable tool schemas, tool output."""


class InstructionSource(StrEnum):
    """Where the tokens of a request come from."""

    SYSTEM = "system"
    PLUGIN = "plugin"
    ENRICHMENT = "enrichment"
    CONVERSATION = "conversation"


class SystemChildType(StrEnum):
    """Kinds of system instruction."""

    BASE = "base"
    CLIENT = "client"
    FRAMEWORK = "framework"


class PluginToolType(StrEnum):
    """Kinds of tool schema: always loaded, or found again on demand."""

    CORE = "core"
    DISCOVERABLE = "discoverable"


class ConversationTurnType(StrEnum):
    """Kinds of conversation content."""

    ORIGINAL_REQUEST = "original_request"
    CLARIFICATION_Q = "clarification_q"
    CLARIFICATION_A = "clarification_a"
    TURN_SUMMARY = "turn_summary"
    WORKING = "working"


GC_POLICY_INDICATORS: dict[GCPolicy, str] = {
    GCPolicy.LOCKED: "🔒",
    GCPolicy.PRESERVABLE: "◑",
    GCPolicy.PARTIAL: "◐",
    GCPolicy.EPHEMERAL: "○",
}

DEFAULT_SOURCE_POLICIES: dict[InstructionSource, GCPolicy] = {
    InstructionSource.SYSTEM: GCPolicy.LOCKED,
    InstructionSource.PLUGIN: GCPolicy.PARTIAL,
    InstructionSource.ENRICHMENT: GCPolicy.EPHEMERAL,
    InstructionSource.CONVERSATION: GCPolicy.PARTIAL,
}

DEFAULT_SYSTEM_POLICIES: dict[SystemChildType, GCPolicy] = dict.fromkeys(
    SystemChildType, GCPolicy.LOCKED
)

DEFAULT_TOOL_POLICIES: dict[PluginToolType, GCPolicy] = {
    PluginToolType.CORE: GCPolicy.LOCKED,
    PluginToolType.DISCOVERABLE: GCPolicy.EPHEMERAL,
}

DEFAULT_TURN_POLICIES: dict[ConversationTurnType, GCPolicy] = {
    ConversationTurnType.ORIGINAL_REQUEST: GCPolicy.LOCKED,
    ConversationTurnType.CLARIFICATION_Q: GCPolicy.PRESERVABLE,
    ConversationTurnType.CLARIFICATION_A: GCPolicy.PRESERVABLE,
    ConversationTurnType.TURN_SUMMARY: GCPolicy.PRESERVABLE,
    ConversationTurnType.WORKING: GCPolicy.EPHEMERAL,
}
