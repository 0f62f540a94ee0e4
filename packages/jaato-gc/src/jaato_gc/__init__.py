"""Garbage collection for the context window of LLM agents.

Everything public is importable from here; modules whose names start with an underscore are not.
Each is loaded when something in it is first asked for: importing this package costs next to
nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaato_gc._version import __version__

if TYPE_CHECKING:
    from jaato_gc._account import cache_impact
    from jaato_gc._base_strategy import GCStrategy
    from jaato_gc._budget import InstructionBudget
    from jaato_gc._clearing import Clearing, cleared, never_cleared
    from jaato_gc._collection import Collection
    from jaato_gc._config import ENVIRONMENT_VARIABLES, GCConfig, ResolvedGCConfig, Settings
    from jaato_gc._errors import (
        ContextFloorError,
        ContextLimitError,
        GCConfigError,
        GCError,
        GCPluginError,
        InvalidHistoryError,
        StalePlanError,
        StashError,
        SummaryError,
        TokenRanksError,
        UndoError,
    )
    from jaato_gc._estimate import ESTIMATE_TOLERANCE, estimate_tokens
    from jaato_gc._extractive import extractive_summary
    from jaato_gc._facts import extract_facts
    from jaato_gc._formats import FormatInfo
    from jaato_gc._hookspecs import hookimpl
    from jaato_gc._images import image_size, image_tokens
    from jaato_gc._installed_plugins import InstalledPlugin, PluginStatus
    from jaato_gc._invariants import Violation, check_collection, check_history
    from jaato_gc._journal import GCPlan
    from jaato_gc._message_codec import message_from_dict, message_to_dict
    from jaato_gc._messages import (
        FunctionCall,
        InlineData,
        Message,
        Part,
        Role,
        SyntheticKind,
        ToolResult,
        mint_message_id,
    )
    from jaato_gc._policies import (
        DEFAULT_SOURCE_POLICIES,
        DEFAULT_SYSTEM_POLICIES,
        DEFAULT_TOOL_POLICIES,
        DEFAULT_TURN_POLICIES,
        GC_POLICY_INDICATORS,
        ConversationTurnType,
        GCPolicy,
        InstructionSource,
        PluginToolType,
        SystemChildType,
    )
    from jaato_gc._profiles import (
        GCProfileConfig,
        load_gc_from_file,
        load_gc_from_profile,
        load_gc_inline,
    )
    from jaato_gc._protection import protect
    from jaato_gc._provider import Provider, ToolHandler, UsageReport, is_context_refusal
    from jaato_gc._recall import RecallTool, recall_tool
    from jaato_gc._registry import PluginRegistry, discover_gc_plugins, load_gc_plugin
    from jaato_gc._repair import repair_history
    from jaato_gc._request import Request
    from jaato_gc._results import (
        CacheImpact,
        GCOutcome,
        GCRemovalItem,
        GCResult,
        GCTriggerReason,
        Shortfall,
    )
    from jaato_gc._session import GCSession
    from jaato_gc._source_entry import SourceEntry
    from jaato_gc._stash import Stash, StashEntry, StashHit, StashStats, stash_key
    from jaato_gc._strategy import GCPlugin, StrategyInfo, StrategySettings
    from jaato_gc._summaries import SummarySettings, SummaryWriter
    from jaato_gc._summarizer import Summarizer, SummarizerFunction
    from jaato_gc._synthetic import fenced
    from jaato_gc._tokens import (
        Confidence,
        EstimateCounter,
        FrameCosts,
        TiktokenCounter,
        TokenCounter,
        as_text,
        choose_counter,
        count_tokens,
        message_tokens,
    )
    from jaato_gc._triggers import ContextUsage, Goal, should_collect
    from jaato_gc._turns import Group, Hold, Layout, Turn, lay_out, split_into_turns

__all__ = [
    "DEFAULT_SOURCE_POLICIES",
    "DEFAULT_SYSTEM_POLICIES",
    "DEFAULT_TOOL_POLICIES",
    "DEFAULT_TURN_POLICIES",
    "ENVIRONMENT_VARIABLES",
    "ESTIMATE_TOLERANCE",
    "GC_POLICY_INDICATORS",
    "CacheImpact",
    "Clearing",
    "Collection",
    "Confidence",
    "ContextFloorError",
    "ContextLimitError",
    "ContextUsage",
    "ConversationTurnType",
    "EstimateCounter",
    "FormatInfo",
    "FrameCosts",
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
    "GCStrategy",
    "GCTriggerReason",
    "Goal",
    "Group",
    "Hold",
    "InlineData",
    "InstalledPlugin",
    "InstructionBudget",
    "InstructionSource",
    "InvalidHistoryError",
    "Layout",
    "Message",
    "Part",
    "PluginRegistry",
    "PluginStatus",
    "PluginToolType",
    "Provider",
    "RecallTool",
    "Request",
    "ResolvedGCConfig",
    "Role",
    "Settings",
    "Shortfall",
    "SourceEntry",
    "StalePlanError",
    "Stash",
    "StashEntry",
    "StashError",
    "StashHit",
    "StashStats",
    "StrategyInfo",
    "StrategySettings",
    "Summarizer",
    "SummarizerFunction",
    "SummaryError",
    "SummarySettings",
    "SummaryWriter",
    "SyntheticKind",
    "SystemChildType",
    "TiktokenCounter",
    "TokenCounter",
    "TokenRanksError",
    "ToolHandler",
    "ToolResult",
    "Turn",
    "UndoError",
    "UsageReport",
    "Violation",
    "__version__",
    "as_text",
    "cache_impact",
    "check_collection",
    "check_history",
    "choose_counter",
    "cleared",
    "count_tokens",
    "discover_gc_plugins",
    "estimate_tokens",
    "extract_facts",
    "extractive_summary",
    "fenced",
    "hookimpl",
    "image_size",
    "image_tokens",
    "is_context_refusal",
    "lay_out",
    "load_gc_from_file",
    "load_gc_from_profile",
    "load_gc_inline",
    "load_gc_plugin",
    "message_from_dict",
    "message_to_dict",
    "message_tokens",
    "mint_message_id",
    "never_cleared",
    "protect",
    "recall_tool",
    "repair_history",
    "should_collect",
    "split_into_turns",
    "stash_key",
]

_NAMES = {
    "_account": "cache_impact",
    "_base_strategy": "GCStrategy",
    "_budget": "InstructionBudget",
    "_clearing": "Clearing cleared never_cleared",
    "_collection": "Collection",
    "_config": "ENVIRONMENT_VARIABLES GCConfig ResolvedGCConfig Settings",
    "_errors": (
        "ContextFloorError ContextLimitError GCConfigError GCError GCPluginError "
        "InvalidHistoryError StalePlanError StashError SummaryError TokenRanksError UndoError"
    ),
    "_estimate": "ESTIMATE_TOLERANCE estimate_tokens",
    "_extractive": "extractive_summary",
    "_facts": "extract_facts",
    "_formats": "FormatInfo",
    "_hookspecs": "hookimpl",
    "_images": "image_size image_tokens",
    "_installed_plugins": "InstalledPlugin PluginStatus",
    "_invariants": "Violation check_collection check_history",
    "_journal": "GCPlan",
    "_message_codec": "message_from_dict message_to_dict",
    "_messages": (
        "FunctionCall InlineData Message Part Role SyntheticKind ToolResult mint_message_id"
    ),
    "_policies": (
        "DEFAULT_SOURCE_POLICIES DEFAULT_SYSTEM_POLICIES DEFAULT_TOOL_POLICIES "
        "DEFAULT_TURN_POLICIES GC_POLICY_INDICATORS ConversationTurnType GCPolicy "
        "InstructionSource PluginToolType SystemChildType"
    ),
    "_profiles": "GCProfileConfig load_gc_from_file load_gc_from_profile load_gc_inline",
    "_protection": "protect",
    "_provider": "Provider ToolHandler UsageReport is_context_refusal",
    "_recall": "RecallTool recall_tool",
    "_registry": "PluginRegistry discover_gc_plugins load_gc_plugin",
    "_repair": "repair_history",
    "_request": "Request",
    "_results": "CacheImpact GCOutcome GCRemovalItem GCResult GCTriggerReason Shortfall",
    "_session": "GCSession",
    "_source_entry": "SourceEntry",
    "_stash": "Stash StashEntry StashHit StashStats stash_key",
    "_strategy": "GCPlugin StrategyInfo StrategySettings",
    "_summaries": "SummarySettings SummaryWriter",
    "_summarizer": "Summarizer SummarizerFunction",
    "_synthetic": "fenced",
    "_tokens": (
        "Confidence EstimateCounter FrameCosts TiktokenCounter TokenCounter as_text "
        "choose_counter count_tokens message_tokens"
    ),
    "_triggers": "ContextUsage Goal should_collect",
    "_turns": "Group Hold Layout Turn lay_out split_into_turns",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # the next time, it is there
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
