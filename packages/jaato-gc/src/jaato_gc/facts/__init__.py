"""Facts: names, tool uses, and summaries without a model."""

from jaato_gc.facts.extractive import extractive_summary as extractive_summary
from jaato_gc.facts.names import extract_facts as extract_facts
from jaato_gc.facts.names import facts_within as facts_within
from jaato_gc.facts.names import is_mentioned as is_mentioned
from jaato_gc.facts.names import names_in as names_in
from jaato_gc.facts.names import texts_of as texts_of
from jaato_gc.facts.names import words_in as words_in
from jaato_gc.facts.tool_uses import ToolKind as ToolKind
from jaato_gc.facts.tool_uses import ToolNames as ToolNames
from jaato_gc.facts.tool_uses import ToolUse as ToolUse
from jaato_gc.facts.tool_uses import find_tool_uses as find_tool_uses
from jaato_gc.facts.tool_uses import places_by_touch as places_by_touch
from jaato_gc.facts.tool_uses import strings_in as strings_in
