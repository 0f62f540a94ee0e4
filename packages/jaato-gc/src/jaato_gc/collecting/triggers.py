"""When a collection is due. Every such decision is made here."""

import math
from dataclasses import dataclass
from typing import Required

from typing_extensions import ReadOnly, TypedDict

from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.config import GCConfig
from jaato_gc.tokens import Confidence

MIN_FREE_SHARE = 0.02
"""Less than this share of the window is not worth a collection.

Continuous mode waits until it can free this much, and so does a collection after one that missed
its goal."""


class ContextUsage(TypedDict, total=False):
    """How full the window is. Every key may be missing; a strategy uses what there is."""

    context_limit: ReadOnly[int]
    """The model's window, in tokens."""
    total_tokens: ReadOnly[int]
    """The tokens of the next request."""
    percent_used: ReadOnly[float]
    """The percentage of the window in use."""
    tokens_remaining: ReadOnly[int]
    """The tokens left in the window."""
    turns: ReadOnly[int]
    """The number of turns in the history."""
    confidence: ReadOnly[Confidence]
    """How reliable the figures are."""


class SessionUsage(ContextUsage):
    """How full the window of a session is. Every key is there."""

    context_limit: Required[ReadOnly[int]]
    """The model's window, in tokens."""
    total_tokens: Required[ReadOnly[int]]
    """The tokens of the next request."""
    percent_used: Required[ReadOnly[float]]
    """The percentage of the window in use."""
    tokens_remaining: Required[ReadOnly[int]]
    """The tokens left in the window."""
    turns: Required[ReadOnly[int]]
    """The number of turns in the history."""
    confidence: Required[ReadOnly[Confidence]]
    """How reliable the figures are."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The figures from which on a collection is due, for one configuration and window.

    Args:
        tokens: Due at this many tokens; ``None`` if the window is unknown.
        turns: Due with more turns than this; ``None``: no limit.
    """

    tokens: int | None
    turns: int | None

    @classmethod
    def of(cls, config: GCConfig, context_limit: int | None) -> "Limits":
        """Returns the limits of a configuration."""
        return cls(trigger_tokens(config, context_limit), config.max_turns)

    def reached(self, total_tokens: int | None, turns: int | None) -> GCTriggerReason | None:
        """Returns why a collection is due; ``None`` if it is not."""
        if total_tokens is not None and self.tokens is not None and total_tokens >= self.tokens:
            return GCTriggerReason.THRESHOLD
        if turns is not None and self.turns is not None and turns > self.turns:
            return GCTriggerReason.TURN_LIMIT
        return None


def should_collect(
    context_usage: ContextUsage, config: GCConfig
) -> tuple[bool, GCTriggerReason | None]:
    """Returns whether a collection is due, and why.

    It is due at the threshold (``>=``), in continuous mode above the target (``>``) by enough to be
    worth it, or beyond ``max_turns``.
    """
    if not config.auto_trigger:
        return False, None
    limits = Limits.of(config, context_usage.get("context_limit"))
    total = context_usage.get("total_tokens")
    if (total is None or limits.tokens is None) and _percent_is_due(context_usage, config):
        return True, GCTriggerReason.THRESHOLD
    reason = limits.reached(total, context_usage.get("turns"))
    return reason is not None, reason


def _percent_is_due(context_usage: ContextUsage, config: GCConfig) -> bool:
    percent = context_usage.get("percent_used") or 0.0
    if config.continuous_mode:
        return percent > min(config.target_percent + 100 * MIN_FREE_SHARE, 100.0)
    return percent >= config.threshold_percent


def trigger_tokens(config: GCConfig, context_limit: int | None) -> int | None:
    """Returns the number of tokens at which a collection is due; ``None`` without a window."""
    window = config.window(context_limit)
    if window is None:
        return None
    limit = max(0, window - config.reserve_output_tokens)
    if not config.continuous_mode:
        return min(math.ceil(window * config.threshold_percent / 100), limit)
    slack = min_free_tokens(config, context_limit)
    target = min(int(window * config.target_percent / 100), limit)
    return min(target + slack, limit) + 1


def min_free_tokens(config: GCConfig, context_limit: int | None) -> int:
    """Returns the number of tokens that are worth a collection."""
    return int((config.window(context_limit) or 0) * MIN_FREE_SHARE)


def crossed_threshold(
    tokens: float, config: GCConfig, context_limit: int
) -> tuple[float, float] | None:
    """Returns the percentage in use and the threshold that it crosses; ``None`` if it does not.

    In continuous mode the threshold is the target.
    """
    percent = tokens / (config.window(context_limit) or context_limit) * 100
    if config.continuous_mode:
        return (percent, config.target_percent) if percent > config.target_percent else None
    return (percent, config.threshold_percent) if percent >= config.threshold_percent else None


def is_cache_cold(config: GCConfig, idle_seconds: float, percent_used: float) -> bool:
    """Returns whether a collection is due because the prompt cache of the provider expired.

    Changing the beginning of the history is free then.
    """
    ttl = config.cache_ttl_seconds
    return ttl is not None and idle_seconds > ttl and percent_used > config.cold_percent


def is_under_pressure(
    config: GCConfig, reason: GCTriggerReason, total_tokens: int, context_limit: int | None
) -> bool:
    """Returns whether PRESERVABLE content may be removed: a refused request, or a full window.

    There is no pressure in continuous mode.
    """
    percent = config.pressure_percent
    if not percent:
        return False
    if reason is GCTriggerReason.CONTEXT_LIMIT:
        return True
    window = config.window(context_limit)
    return window is not None and total_tokens >= window * percent / 100
