"""When a collection is due, and how much it has to free. Every such decision is made here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Required

from typing_extensions import ReadOnly, TypedDict

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.results import GCOutcome, GCTriggerReason
from jaato_gc.config import GCConfig
from jaato_gc.messages import Message
from jaato_gc.tokens import DEFAULT_COUNTER, Confidence, count_tokens

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
    window, limit = config.window(context_limit), config.request_limit(context_limit)
    if window is None or limit is None:
        return None
    if not config.continuous_mode:
        return min(math.ceil(window * config.threshold_percent / 100), limit)
    slack = min_free_tokens(config, context_limit)
    target = min(int(window * config.target_percent / 100), limit)
    return min(target + slack, limit) + 1


def min_free_tokens(config: GCConfig, context_limit: int | None) -> int:
    """Returns the number of tokens that are worth a collection."""
    return int((config.window(context_limit) or 0) * MIN_FREE_SHARE)


def _percent_of_window(tokens: float, config: GCConfig, context_limit: int) -> float:
    return tokens / (config.window(context_limit) or context_limit) * 100


def crossed_threshold(
    tokens: float, config: GCConfig, context_limit: int
) -> tuple[float, float] | None:
    """Returns the percentage in use and the threshold that it crosses; ``None`` if it does not.

    In continuous mode the threshold is the target.
    """
    percent = _percent_of_window(tokens, config, context_limit)
    if config.continuous_mode:
        return (percent, config.target_percent) if percent > config.target_percent else None
    return (percent, config.threshold_percent) if percent >= config.threshold_percent else None


def is_cache_cold(
    config: GCConfig, idle_seconds: float, total_tokens: int, context_limit: int
) -> bool:
    """Returns whether a collection is due because the prompt cache of the provider expired.

    Changing the beginning of the history is free then.
    """
    ttl = config.cache_ttl_seconds
    if ttl is None or idle_seconds <= ttl:
        return False
    return _percent_of_window(total_tokens, config, context_limit) > config.cold_percent


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


# --- how much ---


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a collection.

    Args:
        tokens_to_free: The counted tokens to free at least; ``None``: everything that may be
            removed.
        turns_to_remove: The turns to remove at least; then tokens do not matter.
        target_tokens: The size of the context after that, if the window is known.
        overflow: The counted tokens by which the request exceeds the window.
        worst_overflow: Those that must go for the request to fit even if it is undercounted.
    """

    tokens_to_free: int | None = 0
    turns_to_remove: int = 0
    target_tokens: int | None = None
    overflow: int = 0
    worst_overflow: int = 0

    def outcome(self, *, freed: int, turns_removed: int) -> GCOutcome:
        """Returns how a collection ended that freed this much."""
        if freed <= 0:
            wanted = self.tokens_to_free != 0 or self.turns_to_remove > 0
            return GCOutcome.NO_GAIN if wanted else GCOutcome.NOT_NEEDED
        reached = freed >= (self.tokens_to_free or 0) and turns_removed >= self.turns_to_remove
        return GCOutcome.REACHED if reached else GCOutcome.SHORT


def goal_of(
    reason: GCTriggerReason,
    context_usage: ContextUsage,
    config: GCConfig,
    budget: InstructionBudget | None,
    history: Sequence[Message],
    turns: int,
) -> Goal:
    """Returns the goal for a reason.

    Most reasons free tokens down to the target. TURN_LIMIT: down to ``max_turns``. MANUAL below the
    target: everything, because the host asked. CONTEXT_LIMIT: the provider says that the window is
    full, which counts for more than our own figures.
    """
    overflow, worst_overflow = _overflow(context_usage, config, budget)
    if reason is GCTriggerReason.TURN_LIMIT:
        excess = max(0, turns - (config.max_turns or turns))
        return Goal(turns_to_remove=excess, overflow=overflow, worst_overflow=worst_overflow)
    limit = budget.context_limit if budget else context_usage.get("context_limit")
    total = budget.total_tokens() if budget else context_usage.get("total_tokens")
    percent = context_usage.get("percent_used")
    target = config.target_tokens(limit)
    counter = budget.counter if budget else DEFAULT_COUNTER
    refused = reason is GCTriggerReason.CONTEXT_LIMIT
    if target is not None:
        if total is None:
            if percent is not None and limit:
                total = math.ceil(limit * percent / 100)
            else:
                total = count_tokens(history, counter)
        to_free = total - target
        if refused and not worst_overflow:  # by a provider that counts more than we do
            to_free = max(to_free, _share_above_target(total, 100.0, config))
        to_free = math.ceil(to_free / (budget.ratio if budget else 1))
    elif refused or percent is not None:
        used = max(percent or 0.0, 100.0 if refused else 0.0)
        to_free = _share_above_target(count_tokens(history, counter), used, config)
    else:
        return Goal(tokens_to_free=None)
    if to_free <= 0 and reason is GCTriggerReason.MANUAL:
        return Goal(None, 0, target, overflow, worst_overflow)
    if refused and not worst_overflow:
        # By the provider, whose window is unknown: only the target is safe.
        overflow = worst_overflow = max(0, to_free)
    return Goal(max(0, to_free), 0, target, overflow, worst_overflow)


def _overflow(
    context_usage: ContextUsage, config: GCConfig, budget: InstructionBudget | None
) -> tuple[int, int]:
    """Returns `Goal.overflow` and `Goal.worst_overflow`."""
    if budget is None:
        total = counted = context_usage.get("total_tokens") or 0
        limit, tolerance, ratio = context_usage.get("context_limit"), DEFAULT_COUNTER.tolerance, 1.0
    else:
        total, counted, ratio = budget.total_tokens(), budget.counted_tokens(), budget.ratio
        limit, tolerance = budget.context_limit, budget.counter.tolerance
    most = config.request_limit(limit)
    if most is None or (budget and budget.upper_bound() <= most):
        return 0, 0
    worst = total + tolerance * ratio * counted - most
    return (
        max(0, math.ceil((total - most) / ratio)),
        max(0, math.ceil(worst / (ratio * (1 + tolerance)))),
    )


def _share_above_target(tokens: int, percent_used: float, config: GCConfig) -> int:
    """Returns how many of the tokens are above the target if they use this much of the window."""
    if percent_used <= config.target_percent:
        return 0
    return math.ceil(tokens * (1 - config.target_percent / percent_used))
