"""Facts: names, tool uses, and summaries without a model."""

from jaato_gc.facts.extractive import extractive_summary
from jaato_gc.facts.names import extract_facts, facts_within, is_mentioned, names_in, texts_of
from jaato_gc.facts.tool_uses import (
    ToolKind,
    ToolNames,
    ToolUse,
    find_tool_uses,
    places_by_touch,
    strings_in,
)

__all__ = [
    "ToolKind",
    "ToolNames",
    "ToolUse",
    "extract_facts",
    "extractive_summary",
    "facts_within",
    "find_tool_uses",
    "is_mentioned",
    "names_in",
    "places_by_touch",
    "strings_in",
    "texts_of",
]
