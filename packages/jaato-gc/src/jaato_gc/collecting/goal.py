"""How much a collection has to free."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.results import GCOutcome, GCTriggerReason
from jaato_gc.collecting.triggers import ContextUsage
from jaato_gc.config import GCConfig
from jaato_gc.messages import Message
from jaato_gc.tokens import DEFAULT_COUNTER, count_tokens


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a collection.

    Args:
        tokens_to_free: The tokens to free at least; ``None``: everything that may be removed.
        turns_to_remove: The turns to remove at least; then tokens do not matter.
        target_tokens: The size of the context after that, if the window is known.
        overflow: The tokens by which the request exceeds the window, if the count is right.
        worst_overflow: The tokens that must go for the request to fit even if it is undercounted.
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
        if refused:
            to_free = max(to_free, _share_above_target(total, 100.0, config))
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
        limit, tolerance = context_usage.get("context_limit"), DEFAULT_COUNTER.tolerance
    else:
        total, counted = budget.total_tokens(), budget.counted_tokens()
        limit, tolerance = budget.context_limit, budget.counter.tolerance
    most = config.request_limit(limit)
    if most is None or (budget and budget.upper_bound() <= most):
        return 0, 0
    worst = total + tolerance * counted - most
    return max(0, total - most), max(0, math.ceil(worst / (1 + tolerance)))


def _share_above_target(tokens: int, percent_used: float, config: GCConfig) -> int:
    """Returns how many of the tokens are above the target if they use this much of the window."""
    if percent_used <= config.target_percent:
        return 0
    return math.ceil(tokens * (1 - config.target_percent / percent_used))
