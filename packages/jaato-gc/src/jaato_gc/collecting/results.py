"""The result of a collection: what happened, why, and how many tokens it freed."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from jaato_gc.errors import ReadOnlyError
from jaato_gc.frozen import FrozenList, frozen
from jaato_gc.history import EditAction
from jaato_gc.policies import InstructionSource
from jaato_gc.saved import Count, Flag, SignedCount
from jaato_gc.tokens import Confidence


class GCTriggerReason(StrEnum):
    """Why a collection runs."""

    THRESHOLD = "threshold"
    """Usage reached the threshold, or exceeded the target in continuous mode."""
    MANUAL = "manual"
    """The host asked for it."""
    TURN_LIMIT = "turn_limit"
    """There are more turns than ``max_turns``."""
    PRE_MESSAGE = "pre_message"
    """The check before a request found it necessary."""
    CACHE_COLD = "cache_cold"
    """The prompt cache of the provider expired, so a collection costs nothing extra."""
    CONTEXT_LIMIT = "context_limit"
    """The provider refused a request as too long, or the next request would not fit."""


class GCOutcome(StrEnum):
    """How a collection ended."""

    NOT_NEEDED = "not_needed"
    """Nothing had to be removed."""
    REACHED = "reached"
    """The goal was reached."""
    SHORT = "short"
    """Something was removed, but the goal is out of reach: see `GCResult.shortfall`."""
    NO_GAIN = "no_gain"
    """Something had to be removed, and nothing could be."""
    FAILED = "failed"
    """The strategy raised an error; the history is unchanged."""
    REJECTED = "rejected"
    """The strategy's answer broke an invariant; the history is unchanged."""

    @property
    def is_success(self) -> bool:
        """Whether the collection did its work, even if there was nothing to do."""
        return self not in (GCOutcome.FAILED, GCOutcome.REJECTED)


@dataclass(frozen=True, slots=True)
class GCRemovalItem:
    """One thing that a collection removed from the history and the budget.

    Args:
        source: The source it was booked under.
        child_key: Its key there; ``None`` means the whole source. Turns are named by their index in
            the history before the collection (``turn_3``).
        tokens_freed: The tokens it frees.
        reason: Why, such as ``"truncated"``.
        message_ids: The messages that it covers. If given, they decide, not the key.
        action: ``"remove"``; ``"shorten"``: the messages stay, in a shorter form; ``"summarize"``:
            a summary replaces them.
        stash: Whether the messages are stored in the stash, if there is one.
        stash_keys: The keys under which the stash keeps its messages, set by the session.
    """

    source: InstructionSource
    child_key: str | None = None
    tokens_freed: SignedCount = 0
    reason: str = ""
    message_ids: list[str] = field(default_factory=list)
    action: EditAction = "remove"
    stash: Flag = True
    stash_keys: list[str] = field(default_factory=list)

    def frozen(self) -> "GCRemovalItem":
        """Returns this item with lists that can't be changed."""
        if isinstance(self.message_ids, FrozenList) and isinstance(self.stash_keys, FrozenList):
            return self
        ids, keys = frozen(self.message_ids), frozen(self.stash_keys)
        return replace(self, message_ids=ids, stash_keys=keys)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a goal is out of reach.

    Args:
        missing_tokens: Tokens that remain above the goal.
        floor: Tokens that may not be removed, by source.
        held: Tokens of the conversation that may not be removed, by the reason: ``locked``,
            ``pinned``, ``recent``, ``open_call``, ``newest_user``, ``first_user``,
            ``strategy``.
        largest_movable: Id of the largest message that is held only because it is recent, if any.
        largest_movable_tokens: Its size.
    """

    missing_tokens: SignedCount
    floor: dict[str, SignedCount]
    held: dict[str, SignedCount]
    largest_movable: str | None = None
    largest_movable_tokens: SignedCount = 0


@dataclass(frozen=True, slots=True)
class CacheImpact:
    """The effect of a collection on the provider's prompt cache.

    Args:
        first_changed: Position of the first message that differs; ``None`` if none does.
        prefix_tokens: Tokens of the messages before it, which stay identical.
        rewritten_tokens: Tokens of the messages from it on, which the next request writes again.
    """

    first_changed: Count | None
    prefix_tokens: SignedCount
    rewritten_tokens: SignedCount


class _Freezable:
    """An object that its maker fills, and that is read-only once a session has it.

    A plugin writes into its own result, but hosts, observers and the journal share the one of the
    session.
    """

    __slots__ = ("_is_frozen",)

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_is_frozen", False):
            raise ReadOnlyError(
                f"can't set {name}: results of a session are read-only, because others share them; "
                "make a copy with dataclasses.replace"
            )
        super().__setattr__(name, value)


@dataclass(slots=True)
class GCResult(_Freezable):
    """The result of one collection.

    Token figures are recounted. With a budget they cover the whole context, without one only the
    history. A strategy may leave out the fields from ``outcome`` on; the session sets them.
    Results of a session are read-only.

    Args:
        success: False if it failed or was rejected; then nothing has changed.
        items_collected: The number of items in the removal list.
        tokens_before: Tokens before the collection.
        tokens_after: Tokens after the collection.
        plugin_name: The strategy.
        trigger_reason: Why the collection ran.
        notification: The notice that was added for the model, if any.
        details: Figures of the strategy, such as counts by phase.
        error: The cause of a failure.
        removal_list: What was removed, one item per source and key.
        outcome: How the collection ended; derived from the other fields if not given.
        shortfall: Why the goal is out of reach, if it is.
        cache: The effect on the provider's prompt cache.
        confidence: How reliable the token figures are.
        gc_id: The session's id of this collection, for `GCSession.undo`.
    """

    success: Flag
    items_collected: SignedCount
    tokens_before: SignedCount
    tokens_after: SignedCount
    plugin_name: str
    trigger_reason: GCTriggerReason
    notification: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    removal_list: list[GCRemovalItem] = field(default_factory=list)
    outcome: GCOutcome = None  # type: ignore[assignment]  # set below, never None for a reader
    shortfall: Shortfall | None = None
    cache: CacheImpact | None = None
    confidence: Confidence = Confidence.ESTIMATED
    gc_id: str | None = None

    def __post_init__(self) -> None:
        if self.outcome is None:
            if not self.success:
                self.outcome = GCOutcome.FAILED
            else:
                self.outcome = GCOutcome.REACHED if self.tokens_freed else GCOutcome.NOT_NEEDED

    def frozen(self) -> "GCResult":
        """Returns a read-only copy, equal to this result."""
        short = self.shortfall
        if short is not None:
            short = replace(short, floor=frozen(short.floor), held=frozen(short.held))
        copied = replace(
            self,
            details=frozen(self.details),
            removal_list=FrozenList([item.frozen() for item in self.removal_list]),
            shortfall=short,
        )
        copied._is_frozen = True
        return copied

    @property
    def tokens_freed(self) -> int:
        """The tokens that the context is smaller by, never negative."""
        return max(0, self.tokens_before - self.tokens_after)

    def __str__(self) -> str:
        who = f"{self.plugin_name} ({self.trigger_reason!s})"
        if not self.success:
            line = f"{who}: {self.outcome!s}, nothing changed: {self.error}"
            return " ".join(line.split())[:159]  # an error may have many lines
        restored = self.details.get("restored")
        if restored and isinstance(restored, list):
            what = f"{len(restored)} message{'s' * (len(restored) != 1)} restored"
            return f"{who}: {what}, {self.tokens_before:,} -> {self.tokens_after:,} tokens"
        if not self.removal_list and not self.tokens_freed:
            return f"{who}: {self.outcome!s}, nothing removed at {self.tokens_after:,} tokens"
        items = f"{self.items_collected} item{'s' * (self.items_collected != 1)}"
        return (
            f"{who}: {self.outcome!s}, {self.tokens_before:,} -> {self.tokens_after:,} tokens, "
            f"{items} removed"
        )
