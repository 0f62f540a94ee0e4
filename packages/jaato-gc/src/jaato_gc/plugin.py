"""For authors of plugins: strategies, formats, counters and stashes.

`jaato_gc` has the rest: messages, results, the budget, errors.
"""

from jaato_gc.budget import ReadOnlyBudget
from jaato_gc.collecting import (
    Collection,
    Goal,
    Piece,
    Shortening,
    check_collection,
    protect,
    shortened,
    should_collect,
    trigger_tokens,
    without_shortenable,
)
from jaato_gc.config import ENVIRONMENT_VARIABLES, GCConfigOverrides, Settings, StrategySettings
from jaato_gc.facts import (
    ToolKind,
    ToolNames,
    ToolUse,
    extract_facts,
    find_tool_uses,
    names_in,
    places_by_touch,
    strings_in,
)
from jaato_gc.history import Edit, Group, Hold, Layout, Turn, Violation, lay_out, split_into_turns
from jaato_gc.messages import fenced, mint_message_id, stash_key
from jaato_gc.plugins import (
    FormatInfo,
    GCPlugin,
    GCStrategy,
    InstalledPlugin,
    PluginStatus,
    StrategyInfo,
    hookimpl,
)
from jaato_gc.policies import (
    DEFAULT_SOURCE_POLICIES,
    DEFAULT_SYSTEM_POLICIES,
    DEFAULT_TOOL_POLICIES,
    DEFAULT_TURN_POLICIES,
)
from jaato_gc.session import Provider, ToolHandler
from jaato_gc.stash import RecallTool, Stash, StashEntry, StashHit, StashStats, recall_tool
from jaato_gc.summaries import (
    Summarizer,
    SummarizerFunction,
    SummarySettings,
    SummaryWriter,
    TurnSummarizer,
)
from jaato_gc.tokens import (
    ESTIMATE_TOLERANCE,
    FrameCosts,
    TokenCounter,
    as_text,
    image_size,
    image_tokens,
    message_tokens,
)

__all__ = [
    "DEFAULT_SOURCE_POLICIES",
    "DEFAULT_SYSTEM_POLICIES",
    "DEFAULT_TOOL_POLICIES",
    "DEFAULT_TURN_POLICIES",
    "ENVIRONMENT_VARIABLES",
    "ESTIMATE_TOLERANCE",
    "Collection",
    "Edit",
    "FormatInfo",
    "FrameCosts",
    "GCConfigOverrides",
    "GCPlugin",
    "GCStrategy",
    "Goal",
    "Group",
    "Hold",
    "InstalledPlugin",
    "Layout",
    "Piece",
    "PluginStatus",
    "Provider",
    "ReadOnlyBudget",
    "RecallTool",
    "Settings",
    "Shortening",
    "Stash",
    "StashEntry",
    "StashHit",
    "StashStats",
    "StrategyInfo",
    "StrategySettings",
    "Summarizer",
    "SummarizerFunction",
    "SummarySettings",
    "SummaryWriter",
    "TokenCounter",
    "ToolHandler",
    "ToolKind",
    "ToolNames",
    "ToolUse",
    "Turn",
    "TurnSummarizer",
    "Violation",
    "as_text",
    "check_collection",
    "extract_facts",
    "fenced",
    "find_tool_uses",
    "hookimpl",
    "image_size",
    "image_tokens",
    "lay_out",
    "message_tokens",
    "mint_message_id",
    "names_in",
    "places_by_touch",
    "protect",
    "recall_tool",
    "shortened",
    "should_collect",
    "split_into_turns",
    "stash_key",
    "strings_in",
    "trigger_tokens",
    "without_shortenable",
]
