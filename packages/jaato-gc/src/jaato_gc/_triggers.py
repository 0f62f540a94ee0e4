"""When a collection is due, and how much it has to take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._config import DEFAULT_MIN_FREE_SHARE, GCConfig
from jaato_gc._messages import Message
from jaato_gc._results import GCTriggerReason
from jaato_gc._tokens import DEFAULT_COUNTER, count_tokens

ContextUsage = Mapping[str, Any]
"""How full the window is: ``context_limit total_tokens percent_used tokens_remaining turns``.

Each may be missing; a strategy makes do with what there is.
"""


def should_collect(
    context_usage: ContextUsage, config: GCConfig
) -> tuple[bool, GCTriggerReason | None]:
    """Core's answer to whether a collection is due.

    At the threshold (``>=``), or in continuous mode above the target (``>``) by enough to be worth
    it, or beyond ``max_turns``.
    """
    if not config.auto_trigger:
        return False, None
    if _usage_is_due(context_usage, config):
        return True, GCTriggerReason.THRESHOLD
    turns = context_usage.get("turns")
    if config.max_turns is not None and turns is not None and turns > config.max_turns:
        return True, GCTriggerReason.TURN_LIMIT
    return False, None


def _usage_is_due(context_usage: ContextUsage, config: GCConfig) -> bool:
    total = context_usage.get("total_tokens")
    trigger = config.trigger_tokens(context_usage.get("context_limit"))
    if total is not None and trigger is not None:
        return bool(total >= trigger)
    percent = context_usage.get("percent_used") or 0.0
    if config.continuous_mode:
        # How much a number of tokens is can't be told without a window; a share of it can.
        crumbs = 100 * DEFAULT_MIN_FREE_SHARE if config.min_free_tokens is None else 0.0
        return bool(percent > min(config.target_percent + crumbs, 100.0))
    return bool(percent >= config.threshold_percent)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a collection has to reach.

    Args:
        tokens_to_free: At least so many tokens; ``None``: everything that may go.
        turns_to_remove: At least so many turns; tokens do not matter then.
        target_tokens: Where that leaves the context, where a window is known.
    """

    tokens_to_free: int | None = 0
    turns_to_remove: int = 0
    target_tokens: int | None = None


def goal_of(
    reason: GCTriggerReason,
    context_usage: ContextUsage,
    config: GCConfig,
    budget: InstructionBudget | None,
    history: Sequence[Message],
    turns: int,
) -> Goal:
    """The goal that a reason sets.

    Down to the target, for most. TURN_LIMIT: down to ``max_turns``. MANUAL below the target:
    everything, because whoever asks wants something to happen. CONTEXT_LIMIT: the provider's word
    that the window is full counts for more than our own figures.
    """
    if reason is GCTriggerReason.TURN_LIMIT:
        return Goal(turns_to_remove=max(0, turns - (config.max_turns or turns)))
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
        return Goal(tokens_to_free=None, target_tokens=target)
    return Goal(tokens_to_free=max(0, to_free), target_tokens=target)


def _share_above_target(tokens: int, percent_used: float, config: GCConfig) -> int:
    """How many of the tokens lie above the target, if together they use this much of the window."""
    if percent_used <= config.target_percent:
        return 0
    return math.ceil(tokens * (1 - config.target_percent / percent_used))
