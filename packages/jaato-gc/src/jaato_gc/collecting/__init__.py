"""Collecting: when, how much, what is protected, and how a collection is planned."""

from jaato_gc.collecting.account import cache_impact, make_result, removal_list
from jaato_gc.collecting.collection import Collection, Piece, include_request, opened
from jaato_gc.collecting.draft import Change, Draft, PlanRequest
from jaato_gc.collecting.fitting import CORE
from jaato_gc.collecting.floor import Floor
from jaato_gc.collecting.goal import Goal
from jaato_gc.collecting.ledger import without_messages
from jaato_gc.collecting.outcome import Outcome, check_collection, is_user_text
from jaato_gc.collecting.planning import Failure, GCPlan, make_plan, rejection
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
    "Change",
    "Collection",
    "ContextUsage",
    "Draft",
    "Failure",
    "Floor",
    "GCOutcome",
    "GCPlan",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "Goal",
    "Limits",
    "Outcome",
    "Piece",
    "PlanRequest",
    "SessionUsage",
    "Shortening",
    "Shortfall",
    "cache_impact",
    "check_collection",
    "crossed_threshold",
    "include_request",
    "is_cache_cold",
    "is_user_text",
    "make_plan",
    "make_result",
    "min_free_tokens",
    "opened",
    "protect",
    "rejection",
    "removal_list",
    "shortened",
    "should_collect",
    "trigger_tokens",
    "with_shorter_values",
    "without_messages",
    "without_shortenable",
]
