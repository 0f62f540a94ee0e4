"""gc_budget: removes content by policy, lowest priority first."""

from jaato_gc_budget._plugin import (
    BudgetGCPlugin,
    BudgetSettings,
    create_plugin,
    jaato_gc_register_strategies,
)
from jaato_gc_budget._version import __version__

__all__ = [
    "BudgetGCPlugin",
    "BudgetSettings",
    "__version__",
    "create_plugin",
    "jaato_gc_register_strategies",
]
