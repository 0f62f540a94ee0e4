"""gc_hybrid: removes ancient turns, summarizes middle ones, keeps recent ones."""

from jaato_gc_hybrid._plugin import (
    HybridGCPlugin,
    HybridSettings,
    create_plugin,
    jaato_gc_register_strategies,
)
from jaato_gc_hybrid._version import __version__

__all__ = [
    "HybridGCPlugin",
    "HybridSettings",
    "__version__",
    "create_plugin",
    "jaato_gc_register_strategies",
]
