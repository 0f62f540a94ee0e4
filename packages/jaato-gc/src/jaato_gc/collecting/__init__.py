"""Collecting: when, how much, what is protected, and the collection that a strategy works on."""

from jaato_gc.collecting.account import (
    account,
    cache_impact,
    conclude,
    failure,
    open_collection,
)
from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.fitting import CORE, fits
from jaato_gc.collecting.floor import Floor, can_fit
from jaato_gc.collecting.goal import Goal, goal_of
from jaato_gc.collecting.ledger import without_messages
from jaato_gc.collecting.outcome import (
    Changes,
    Outcome,
    broken_outcome_rules,
    check_collection,
    is_user_text,
)
from jaato_gc.collecting.pieces import Piece
from jaato_gc.collecting.protection import protect
from jaato_gc.collecting.results import (
    CacheImpact,
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    Shortfall,
)
from jaato_gc.collecting.shortening import (
    Shortening,
    shortened,
    with_shorter_values,
    without_shortenable,
)
from jaato_gc.collecting.triggers import (
    ContextUsage,
    Limits,
    SessionUsage,
    crossed_threshold,
    is_cache_cold,
    min_free_tokens,
    should_collect,
    trigger_tokens,
)

__all__ = [
    "CORE",
    "CacheImpact",
    "Changes",
    "Collection",
    "ContextUsage",
    "Floor",
    "GCOutcome",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "Goal",
    "Limits",
    "Outcome",
    "Piece",
    "SessionUsage",
    "Shortening",
    "Shortfall",
    "account",
    "broken_outcome_rules",
    "cache_impact",
    "can_fit",
    "check_collection",
    "conclude",
    "crossed_threshold",
    "failure",
    "fits",
    "goal_of",
    "is_cache_cold",
    "is_user_text",
    "min_free_tokens",
    "open_collection",
    "protect",
    "shortened",
    "should_collect",
    "trigger_tokens",
    "with_shorter_values",
    "without_messages",
    "without_shortenable",
]
