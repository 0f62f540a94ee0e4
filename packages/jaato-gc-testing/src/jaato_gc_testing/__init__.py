"""The conformance kit: what any strategy, ours or a third party's, is tested with."""

from jaato_gc_testing._conformance import StrategyConformance
from jaato_gc_testing._histories import TEXTS, broken_histories, histories
from jaato_gc_testing._host import DummyModel, NoGCPlugin
from jaato_gc_testing._operations import count_operations, long_history
from jaato_gc_testing._situations import Situation, situations
from jaato_gc_testing._version import __version__

__all__ = [
    "TEXTS",
    "DummyModel",
    "NoGCPlugin",
    "Situation",
    "StrategyConformance",
    "__version__",
    "broken_histories",
    "count_operations",
    "histories",
    "long_history",
    "situations",
]
