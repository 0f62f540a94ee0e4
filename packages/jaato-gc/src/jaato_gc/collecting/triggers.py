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

ROOM_PERCENT = 25.0
"""The target leaves this percentage of the window beside fixed content, or its own if lower."""

GAP_PERCENT = 12.5
"""How far the target stays below the largest request, in percent of the window.

A target that was set close to its threshold keeps that distance."""

MARGIN_PERCENT = 3.0
"""How far a raised threshold stays below the largest request, for what one step adds."""


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
    fixed_tokens: ReadOnly[int]
    """The tokens that no collection removes, as a session knows them."""


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
    fixed_tokens: Required[ReadOnly[int]]
    """The tokens that no collection removes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The figures that decide when a collection is due, and how much it frees.

    System prompt and tools of an agent can take more than the target. Then every request would
    start a collection, and none would reach its goal. So the target leaves room beside fixed
    content, and threshold and pressure keep their distance to it as far as they can.

    Args:
        window: The part of the model's window that may be used, in tokens; ``None``: unknown.
        request_limit: The size of the largest request.
        target_percent: The percentage of the window in use after a collection.
        threshold_percent: Due at this percentage; in continuous mode the target.
        pressure_percent: PRESERVABLE content may be removed from here on. ``None``: continuous.
        max_turns: Due with more turns than this; ``None``: no limit.
    """

    window: int | None
    request_limit: int | None
    target_percent: float
    threshold_percent: float
    pressure_percent: float | None
    max_turns: int | None

    @classmethod
    def of(cls, config: GCConfig, context_limit: int | None, fixed_tokens: int = 0) -> "Limits":
        """Returns the limits of a configuration.

        Args:
            config: The configuration.
            context_limit: The model's window; ``None`` if it is unknown.
            fixed_tokens: The tokens that no collection removes, as a session knows them.
        """
        window, most = config.window(context_limit), config.request_limit(context_limit)
        given, threshold = config.target_percent, config.threshold_percent
        target, pressure = given, config.pressure_percent or None
        if pressure is None:
            threshold = min(given + 100 * MIN_FREE_SHARE, 100.0)
        if window and most is not None:
            top = 100 * most / window
            below_threshold = min(given, top - min(GAP_PERCENT, threshold - given))
            beside_fixed = 100 * fixed_tokens / window + min(ROOM_PERCENT, given)
            target = max(0.0, below_threshold, min(beside_fixed, top - GAP_PERCENT))
            lift = max(0.0, target - given)
            threshold = max(min(threshold, top), min(threshold + lift, top - MARGIN_PERCENT))
            pressure = pressure and min(pressure + lift, top)
        if pressure is None:
            threshold = target
        return cls(window, most, target, threshold, pressure, config.max_turns)

    @property
    def target_tokens(self) -> int | None:
        """The size of the context after a collection; ``None`` if the window is unknown."""
        tokens = self._in_tokens(self.target_percent)
        return None if tokens is None else int(tokens)

    @property
    def trigger_tokens(self) -> int | None:
        """The size of the context at which a collection is due; ``None`` without a window."""
        tokens = self._in_tokens(self.threshold_percent)
        if tokens is None or self.request_limit is None:
            return None
        if self.pressure_percent is not None:
            return math.ceil(tokens)
        return min(int(tokens) + self.min_free_tokens, self.request_limit) + 1

    @property
    def pressure_tokens(self) -> int | None:
        """The size from which on PRESERVABLE content may be removed; ``None``: there is none."""
        tokens = self._in_tokens(self.pressure_percent)
        return None if tokens is None else math.ceil(tokens)

    @property
    def min_free_tokens(self) -> int:
        """The number of tokens that are worth a collection."""
        return int((self.window or 0) * MIN_FREE_SHARE)

    def _in_tokens(self, percent: float | None) -> float | None:
        if percent is None or self.window is None or self.request_limit is None:
            return None
        return min(self.window * percent / 100, self.request_limit)

    def reached(self, total_tokens: int | None, turns: int | None) -> GCTriggerReason | None:
        """Returns why a collection is due; ``None`` if it is not."""
        trigger = self.trigger_tokens
        if total_tokens is not None and trigger is not None and total_tokens >= trigger:
            return GCTriggerReason.THRESHOLD
        if turns is not None and self.max_turns is not None and turns > self.max_turns:
            return GCTriggerReason.TURN_LIMIT
        return None

    def is_due_at(self, percent_used: float) -> bool:
        """Returns whether a collection is due, if only the percentage in use is known."""
        if self.pressure_percent is None:
            return percent_used > min(self.target_percent + 100 * MIN_FREE_SHARE, 100.0)
        return percent_used >= self.threshold_percent

    def crossed(self, tokens: float) -> tuple[float, float] | None:
        """Returns the percentage in use and the threshold that it crosses; ``None`` if it does not.

        In continuous mode the threshold is the target.
        """
        percent = tokens / self.window * 100 if self.window else 0.0
        if percent < self.threshold_percent or (
            percent == self.threshold_percent and self.pressure_percent is None
        ):
            return None
        return percent, self.threshold_percent

    def is_under_pressure(self, reason: GCTriggerReason, total_tokens: int) -> bool:
        """Returns whether PRESERVABLE content may be removed: a refused request, or a full window.

        There is no pressure in continuous mode.
        """
        if reason is GCTriggerReason.CONTEXT_LIMIT:
            return self.pressure_percent is not None
        return self.pressure_tokens is not None and total_tokens >= self.pressure_tokens


def should_collect(
    context_usage: ContextUsage, config: GCConfig
) -> tuple[bool, GCTriggerReason | None]:
    """Returns whether a collection is due, and why.

    It is due at the threshold (``>=``), in continuous mode above the target (``>``) by enough to be
    worth it, or beyond ``max_turns``.
    """
    if not config.auto_trigger:
        return False, None
    limits = Limits.of(
        config, context_usage.get("context_limit"), context_usage.get("fixed_tokens", 0)
    )
    total = context_usage.get("total_tokens")
    percent = context_usage.get("percent_used") or 0.0
    if (total is None or limits.window is None) and limits.is_due_at(percent):
        return True, GCTriggerReason.THRESHOLD
    reason = limits.reached(total, context_usage.get("turns"))
    return reason is not None, reason


def is_cache_cold(config: GCConfig, idle_seconds: float, context_usage: SessionUsage) -> bool:
    """Returns whether a collection is due because the prompt cache of the provider expired.

    Changing the beginning of the history is free then.
    """
    ttl = config.cache_ttl_seconds
    if ttl is None or idle_seconds <= ttl:
        return False
    percentages = {
        "threshold_percent": config.cold_percent,
        "target_percent": config.cold_target_percent,
        "pressure_percent": 100.0,
    }
    cold = config.model_copy(update=percentages)
    limits = Limits.of(cold, context_usage["context_limit"], context_usage["fixed_tokens"])
    return context_usage["total_tokens"] > (limits.trigger_tokens or 0)


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
    limits: Limits,
    budget: InstructionBudget | None,
    history: Sequence[Message],
    turns: int,
) -> Goal:
    """Returns the goal for a reason.

    Most reasons free tokens down to the target. TURN_LIMIT: down to ``max_turns``. MANUAL below the
    target: everything, because the host asked. CONTEXT_LIMIT: the provider says that the window is
    full, which counts for more than our own figures.
    """
    overflow, worst_overflow = _overflow(context_usage, limits.request_limit, budget)
    if reason is GCTriggerReason.TURN_LIMIT:
        excess = max(0, turns - (limits.max_turns or turns))
        return Goal(turns_to_remove=excess, overflow=overflow, worst_overflow=worst_overflow)
    total = budget.total_tokens() if budget else context_usage.get("total_tokens")
    limit, percent = context_usage.get("context_limit"), context_usage.get("percent_used")
    target, share = limits.target_tokens, limits.target_percent
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
            to_free = max(to_free, _tokens_above(share, total, 100.0))
        to_free = math.ceil(to_free / (budget.ratio if budget else 1))
    elif refused or percent is not None:
        used = max(percent or 0.0, 100.0 if refused else 0.0)
        to_free = _tokens_above(share, count_tokens(history, counter), used)
    else:
        return Goal(tokens_to_free=None)
    if to_free <= 0 and reason is GCTriggerReason.MANUAL:
        return Goal(None, 0, target, overflow, worst_overflow)
    if refused and not worst_overflow:
        # By the provider, whose window is unknown: only the target is safe.
        overflow = worst_overflow = max(0, to_free)
    return Goal(max(0, to_free), 0, target, overflow, worst_overflow)


def _overflow(
    context_usage: ContextUsage, most: int | None, budget: InstructionBudget | None
) -> tuple[int, int]:
    """Returns `Goal.overflow` and `Goal.worst_overflow`."""
    if budget is None:
        total = counted = context_usage.get("total_tokens") or 0
        tolerance, ratio = DEFAULT_COUNTER.tolerance, 1.0
    else:
        total, counted, ratio = budget.total_tokens(), budget.counted_tokens(), budget.ratio
        tolerance = budget.counter.tolerance
    if most is None or (budget and budget.upper_bound() <= most):
        return 0, 0
    worst = total + tolerance * ratio * counted - most
    return (
        max(0, math.ceil((total - most) / ratio)),
        max(0, math.ceil(worst / (ratio * (1 + tolerance)))),
    )


def _tokens_above(target_percent: float, tokens: int, percent_used: float) -> int:
    """Returns how many of the tokens are above the target if they use this much of the window."""
    if percent_used <= target_percent:
        return 0
    return math.ceil(tokens * (1 - target_percent / percent_used))
