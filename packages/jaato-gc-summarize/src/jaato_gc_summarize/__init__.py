"""gc_summarize: replaces the oldest turns by a summary."""

from jaato_gc_summarize._plugin import (
    SummarizeGCPlugin,
    SummarizeSettings,
    create_plugin,
    jaato_gc_register_strategies,
)
from jaato_gc_summarize._version import __version__

__all__ = [
    "SummarizeGCPlugin",
    "SummarizeSettings",
    "__version__",
    "create_plugin",
    "jaato_gc_register_strategies",
]
