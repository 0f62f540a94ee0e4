"""A mark-and-sweep strategy for coding agents, and an engine over context segments."""

from jaato_gc_marksweep._engine import GCEngine, IGCEngine
from jaato_gc_marksweep._garbage import Garbage, Rung, find_garbage
from jaato_gc_marksweep._plugin import (
    MarkSweepGCPlugin,
    create_plugin,
    jaato_gc_register_strategies,
)
from jaato_gc_marksweep._pruning_plan import PruningCandidate, PruningPlan
from jaato_gc_marksweep._scoring import DEFAULT_TYPE_SCORE, TYPE_SCORES
from jaato_gc_marksweep._segments import REFERENCE_TAG, ContextSegment, Generation
from jaato_gc_marksweep._settings import MarkSweepSettings, ToolNames
from jaato_gc_marksweep._version import __version__

__all__ = [
    "DEFAULT_TYPE_SCORE",
    "REFERENCE_TAG",
    "TYPE_SCORES",
    "ContextSegment",
    "GCEngine",
    "Garbage",
    "Generation",
    "IGCEngine",
    "MarkSweepGCPlugin",
    "MarkSweepSettings",
    "PruningCandidate",
    "PruningPlan",
    "Rung",
    "ToolNames",
    "__version__",
    "create_plugin",
    "find_garbage",
    "jaato_gc_register_strategies",
]
