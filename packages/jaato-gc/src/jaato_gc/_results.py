"""What a collection did, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from jaato_gc._policies import InstructionSource
from jaato_gc._tokens import Confidence


class GCTriggerReason(StrEnum):
    """Why a collection runs."""

    THRESHOLD = "threshold"
    """Usage reached the threshold, or the target in continuous mode."""
    MANUAL = "manual"
    """The host asked."""
    TURN_LIMIT = "turn_limit"
    """There are more turns than ``max_turns``."""
    PRE_MESSAGE = "pre_message"
    """The check before a request found that it had to."""
    CONTEXT_LIMIT = "context_limit"
    """The provider refused a request as too long."""


class GCOutcome(StrEnum):
    """How a collection ended."""

    NOT_NEEDED = "not_needed"
    """Nothing had to go."""
    REACHED = "reached"
    """The goal was reached."""
    SHORT = "short"
    """Something went, but the goal is out of reach: see `GCResult.shortfall`."""
    NO_GAIN = "no_gain"
    """Something had to go and nothing could."""
    FAILED = "failed"
    """The strategy could not do its work; the history is unchanged."""
    REJECTED = "rejected"
    """What the strategy returned broke an invariant; the history is unchanged."""

    @property
    def is_success(self) -> bool:
        return self not in (GCOutcome.FAILED, GCOutcome.REJECTED)


RemovalAction = Literal["remove", "clear", "summarize"]


@dataclass(slots=True)
class GCRemovalItem:
    """One thing that a collection took: the session takes it out of the budget too.

    Args:
        source: Where it was booked.
        child_key: Its key there; ``None`` stands for the whole source. Turns are named by their
            index in the history that was collected (``turn_3``).
        tokens_freed: Tokens it no longer costs.
        reason: Why it went, such as ``"truncated"``.
        message_ids: The messages it stands for. Where given, they decide, not the key.
        action: ``"remove"``; ``"clear"``: the messages stay, in a shorter form; ``"summarize"``:
            a summary stands in their place.
        keep: False asks not to put it into the stash.
        stash_keys: What its messages can be recalled by; filled in by a session that has a stash.
    """

    source: InstructionSource
    child_key: str | None = None
    tokens_freed: int = 0
    reason: str = ""
    message_ids: Sequence[str] = ()
    action: RemovalAction = "remove"
    keep: bool = True
    stash_keys: Sequence[str] = ()


@dataclass(slots=True)
class Shortfall:
    """Why a goal is out of reach.

    Args:
        missing_tokens: Tokens above the goal that remain.
        floor: Tokens that may not be removed, by source.
        held: Tokens of the conversation that may not be removed, by what holds them: ``locked``,
            ``pinned``, ``recent``, ``open_call``, ``first_user``.
        largest_movable: Id of the largest message that only its recency holds, if any.
        largest_movable_tokens: Its size.
    """

    missing_tokens: int
    floor: dict[str, int]
    held: dict[str, int]
    largest_movable: str | None = None
    largest_movable_tokens: int = 0


@dataclass(slots=True)
class CacheImpact:
    """What a collection means for the provider's prompt cache.

    Args:
        first_changed: Position of the first message that differs; ``None``: nothing changed.
        prefix_tokens: Tokens of the history before it, which stay identical.
        rewritten_tokens: Tokens of the history from it on, which the next request writes anew.
    """

    first_changed: int | None
    prefix_tokens: int
    rewritten_tokens: int


@dataclass(slots=True)
class GCResult:
    """The honest account of one collection.

    Token figures are recounted from the histories before and after. With a budget they speak of
    the whole context, without one of the history alone. The fields from ``outcome`` on may be left
    out by a strategy; the session fills them in.

    Args:
        success: False if it failed or was rejected; then nothing has changed.
        items_collected: How many items the removal list has.
        tokens_before: Tokens before it.
        tokens_after: Tokens after it.
        plugin_name: The strategy.
        trigger_reason: Why it ran.
        notification: What the model was told, if it was.
        details: What the strategy adds, such as counts by phase.
        error: What went wrong, if something did.
        removal_list: What went, one item per source and key.
        outcome: How it ended.
        shortfall: Why the goal is out of reach, if it is.
        cache: What it means for the provider's prompt cache.
        confidence: How sure the token figures are.
        gc_id: The session's name for it, to undo it by.
    """

    success: bool
    items_collected: int
    tokens_before: int
    tokens_after: int
    plugin_name: str
    trigger_reason: GCTriggerReason
    notification: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    removal_list: list[GCRemovalItem] = field(default_factory=list)
    outcome: GCOutcome | None = None
    shortfall: Shortfall | None = None
    cache: CacheImpact | None = None
    confidence: Confidence = Confidence.ESTIMATED
    gc_id: str | None = None

    @property
    def tokens_freed(self) -> int:
        """Tokens that the context is smaller by, never negative."""
        return max(0, self.tokens_before - self.tokens_after)
