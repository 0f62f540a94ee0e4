"""The sources of a context and the policies that decide what a collection may remove."""

from enum import StrEnum
from typing import NoReturn


class GCPolicy(StrEnum):
    """When a collection may remove something, from never to first."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        expected = ", ".join(f"GCPolicy.{policy.name}" for policy in cls)
        raise ValueError(f"{value!r:.80} is not a policy: expected one of {expected}")

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
    """System instructions."""
    PLUGIN = "plugin"
    """Schemas of tools."""
    ENRICHMENT = "enrichment"
    """Content that every turn adds again, such as references."""
    CONVERSATION = "conversation"
    """The messages of the history."""


class SystemChildType(StrEnum):
    """Kinds of system instruction."""

    BASE = "base"
    """Instructions of the agent."""
    CLIENT = "client"
    """Instructions of the user or the client."""
    FRAMEWORK = "framework"
    """Instructions of the framework."""


class PluginToolType(StrEnum):
    """Kinds of tool schema: always loaded, or found again on demand."""

    CORE = "core"
    """Always loaded."""
    DISCOVERABLE = "discoverable"
    """Found again on demand."""


class ConversationTurnType(StrEnum):
    """Kinds of conversation content."""

    ORIGINAL_REQUEST = "original_request"
    """The request that the conversation began with."""
    CLARIFICATION_Q = "clarification_q"
    """A question of the model to the user."""
    CLARIFICATION_A = "clarification_a"
    """The answer of the user to it."""
    TURN_SUMMARY = "turn_summary"
    """A summary of turns."""
    WORKING = "working"
    """Everything else, such as calls and their results."""


REMOVABLE_POLICIES = (GCPolicy.EPHEMERAL, GCPolicy.PARTIAL)
"""The policies that a collection may remove without pressure, first to last."""

GC_POLICY_INDICATORS: dict[GCPolicy, str] = {
    GCPolicy.LOCKED: "🔒",
    GCPolicy.PRESERVABLE: "◑",
    GCPolicy.PARTIAL: "◐",
    GCPolicy.EPHEMERAL: "○",
}
"""The symbol of each policy, for displays."""

DEFAULT_SOURCE_POLICIES: dict[InstructionSource, GCPolicy] = {
    InstructionSource.SYSTEM: GCPolicy.LOCKED,
    InstructionSource.PLUGIN: GCPolicy.PARTIAL,
    InstructionSource.ENRICHMENT: GCPolicy.EPHEMERAL,
    InstructionSource.CONVERSATION: GCPolicy.PARTIAL,
}
"""The policy of each source, unless an entry has its own."""

DEFAULT_SYSTEM_POLICIES: dict[SystemChildType, GCPolicy] = dict.fromkeys(
    SystemChildType, GCPolicy.LOCKED
)
"""The policy of each kind of system instruction."""

DEFAULT_TOOL_POLICIES: dict[PluginToolType, GCPolicy] = {
    PluginToolType.CORE: GCPolicy.LOCKED,
    PluginToolType.DISCOVERABLE: GCPolicy.EPHEMERAL,
}
"""The policy of each kind of tool schema."""

DEFAULT_TURN_POLICIES: dict[ConversationTurnType, GCPolicy] = {
    ConversationTurnType.ORIGINAL_REQUEST: GCPolicy.LOCKED,
    ConversationTurnType.CLARIFICATION_Q: GCPolicy.PRESERVABLE,
    ConversationTurnType.CLARIFICATION_A: GCPolicy.PRESERVABLE,
    ConversationTurnType.TURN_SUMMARY: GCPolicy.PRESERVABLE,
    ConversationTurnType.WORKING: GCPolicy.EPHEMERAL,
}
"""The policy of each kind of conversation content."""
