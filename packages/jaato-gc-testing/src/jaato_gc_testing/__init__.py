"""The conformance kit: test suites for plugins of every kind, and helpers for tests of hosts."""

import jaato_gc_testing._assertions  # noqa: F401  first: see there
from jaato_gc_testing._conformance import StrategyConformance
from jaato_gc_testing._counter_conformance import CounterConformance
from jaato_gc_testing._format_conformance import FormatConformance
from jaato_gc_testing._histories import TEXTS, broken_histories, histories
from jaato_gc_testing._host import DummyModel, NoGCPlugin
from jaato_gc_testing._memory_stash import MemoryStash
from jaato_gc_testing._observer_conformance import ObserverConformance
from jaato_gc_testing._operations import count_operations, long_history
from jaato_gc_testing._sessions import (
    COUNTER,
    LONG_TEXT,
    OldestFirst,
    ScriptedPlugin,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
    saved_state,
    speak,
    turn_messages,
)
from jaato_gc_testing._situations import Situation, situations
from jaato_gc_testing._stash_conformance import StashConformance
from jaato_gc_testing._stash_messages import stash_messages
from jaato_gc_testing._version import __version__

__all__ = [
    "COUNTER",
    "LONG_TEXT",
    "TEXTS",
    "CounterConformance",
    "DummyModel",
    "FormatConformance",
    "MemoryStash",
    "NoGCPlugin",
    "ObserverConformance",
    "OldestFirst",
    "ScriptedPlugin",
    "ScriptedStrategy",
    "Situation",
    "StashConformance",
    "StrategyConformance",
    "__version__",
    "assert_in_step",
    "broken_histories",
    "count_operations",
    "histories",
    "long_history",
    "message_ids",
    "new_session",
    "restarted",
    "saved_state",
    "situations",
    "speak",
    "stash_messages",
    "turn_messages",
]
