"""gc_truncate: removes the oldest turns until enough is free."""

from jaato_gc_truncate._plugin import (
    TruncateGCPlugin,
    TruncateSettings,
    create_plugin,
    jaato_gc_register_strategies,
)
from jaato_gc_truncate._version import __version__

__all__ = [
    "TruncateGCPlugin",
    "TruncateSettings",
    "__version__",
    "create_plugin",
    "jaato_gc_register_strategies",
]
