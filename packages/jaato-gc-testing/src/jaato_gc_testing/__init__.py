"""The conformance kit: what any strategy or stash, ours or a third party's, is tested with."""

from jaato_gc_testing._conformance import StrategyConformance
from jaato_gc_testing._histories import TEXTS, broken_histories, histories
from jaato_gc_testing._host import DummyModel, NoGCPlugin
from jaato_gc_testing._memory_stash import MemoryStash
from jaato_gc_testing._operations import count_operations, long_history
from jaato_gc_testing._situations import Situation, situations
from jaato_gc_testing._stash_conformance import StashConformance
from jaato_gc_testing._stash_messages import stash_messages
from jaato_gc_testing._version import __version__

__all__ = [
    "TEXTS",
    "DummyModel",
    "MemoryStash",
    "NoGCPlugin",
    "Situation",
    "StashConformance",
    "StrategyConformance",
    "__version__",
    "broken_histories",
    "count_operations",
    "histories",
    "long_history",
    "situations",
    "stash_messages",
]
