"""The options of gc_marksweep."""

from pydantic import PositiveInt

from jaato_gc.plugin import StrategySettings, ToolNames

__all__ = ["MarkSweepSettings", "ToolNames"]


class MarkSweepSettings(StrategySettings):
    """Options of gc_marksweep."""

    tools: ToolNames = ToolNames()
    """How tools are recognised."""
    max_result_tokens: PositiveInt = 2_000
    """Longer old results are shortened to head and tail."""
