"""Garbage collection for the context window of LLM agents.

This module has what the author of an agent needs. `jaato_gc.plugin` has what the author of a
strategy, format, counter or stash needs. Names are imported on first use, so that importing the
package is cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaato_gc._version import __version__

if TYPE_CHECKING:
    from jaato_gc.budget import InstructionBudget, SourceEntry
    from jaato_gc.collecting import (
        CacheImpact,
        ContextUsage,
        GCOutcome,
        GCRemovalItem,
        GCResult,
        GCTriggerReason,
        SessionUsage,
        Shortfall,
    )
    from jaato_gc.config import GCConfig
    from jaato_gc.errors import (
        ContextFloorError,
        ContextLimitError,
        GCConfigError,
        GCError,
        GCPluginError,
        InvalidHistoryError,
        MessageError,
        NotConfiguredError,
        ProviderError,
        ReadOnlyError,
        SavedSessionError,
        StalePlanError,
        StashError,
        SummaryError,
        TokenRanksError,
        UndoError,
    )
    from jaato_gc.facts import extractive_summary
    from jaato_gc.history import check_history, repair_history, split_into_turns
    from jaato_gc.messages import (
        FunctionCall,
        InlineData,
        Message,
        Part,
        Role,
        SyntheticKind,
        ToolResult,
        message_from_dict,
        message_to_dict,
    )
    from jaato_gc.plugins import (
        GCPlugin,
        GCProfileConfig,
        PluginRegistry,
        discover_gc_plugins,
        load_gc_from_file,
        load_gc_from_profile,
        load_gc_inline,
        load_gc_plugin,
    )
    from jaato_gc.policies import (
        GC_POLICY_INDICATORS,
        ConversationTurnType,
        GCPolicy,
        InstructionSource,
        PluginToolType,
        SystemChildType,
    )
    from jaato_gc.session import GCPlan, GCSession, UsageReport, is_context_refusal
    from jaato_gc.tokens import (
        Confidence,
        EstimateCounter,
        TiktokenCounter,
        choose_counter,
        count_tokens,
        estimate_tokens,
    )

__all__ = [
    "GC_POLICY_INDICATORS",
    "CacheImpact",
    "Confidence",
    "ContextFloorError",
    "ContextLimitError",
    "ContextUsage",
    "ConversationTurnType",
    "EstimateCounter",
    "FunctionCall",
    "GCConfig",
    "GCConfigError",
    "GCError",
    "GCOutcome",
    "GCPlan",
    "GCPlugin",
    "GCPluginError",
    "GCPolicy",
    "GCProfileConfig",
    "GCRemovalItem",
    "GCResult",
    "GCSession",
    "GCTriggerReason",
    "InlineData",
    "InstructionBudget",
    "InstructionSource",
    "InvalidHistoryError",
    "Message",
    "MessageError",
    "NotConfiguredError",
    "Part",
    "PluginRegistry",
    "PluginToolType",
    "ProviderError",
    "ReadOnlyError",
    "Role",
    "SavedSessionError",
    "SessionUsage",
    "Shortfall",
    "SourceEntry",
    "StalePlanError",
    "StashError",
    "SummaryError",
    "SyntheticKind",
    "SystemChildType",
    "TiktokenCounter",
    "TokenRanksError",
    "ToolResult",
    "UndoError",
    "UsageReport",
    "__version__",
    "check_history",
    "choose_counter",
    "count_tokens",
    "discover_gc_plugins",
    "estimate_tokens",
    "extractive_summary",
    "is_context_refusal",
    "load_gc_from_file",
    "load_gc_from_profile",
    "load_gc_inline",
    "load_gc_plugin",
    "message_from_dict",
    "message_to_dict",
    "repair_history",
    "split_into_turns",
]

_NAMES = {
    "budget": "InstructionBudget SourceEntry",
    "collecting": (
        "CacheImpact ContextUsage GCOutcome GCRemovalItem GCResult GCTriggerReason SessionUsage "
        "Shortfall"
    ),
    "config": "GCConfig",
    "errors": (
        "ContextFloorError ContextLimitError GCConfigError GCError GCPluginError "
        "InvalidHistoryError MessageError NotConfiguredError ProviderError ReadOnlyError "
        "SavedSessionError StalePlanError StashError SummaryError TokenRanksError UndoError"
    ),
    "facts": "extractive_summary",
    "history": "check_history repair_history split_into_turns",
    "messages": (
        "FunctionCall InlineData Message Part Role SyntheticKind ToolResult message_from_dict "
        "message_to_dict"
    ),
    "plugins": (
        "GCPlugin GCProfileConfig PluginRegistry discover_gc_plugins load_gc_from_file "
        "load_gc_from_profile load_gc_inline load_gc_plugin"
    ),
    "policies": (
        "GC_POLICY_INDICATORS ConversationTurnType GCPolicy InstructionSource PluginToolType "
        "SystemChildType"
    ),
    "session": "GCPlan GCSession UsageReport is_context_refusal",
    "tokens": (
        "Confidence EstimateCounter TiktokenCounter choose_counter count_tokens estimate_tokens"
    ),
}
_HOMES = {name: folder for folder, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker must notice names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            hint = ""
            if not name.startswith("_"):
                plugin = importlib.import_module(f"{__name__}.plugin")
                if name in plugin.__all__:
                    hint = f": import it from {__name__}.plugin"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
