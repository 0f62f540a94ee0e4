"""Snapshots of a budget, and the strict models that they are read by.

What snapshots have for displays is left out there: it is worked out again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from jaato_gc.budget.calibration import GREATEST_RATIO, LEAST_RATIO
from jaato_gc.errors import GCError
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.saved import Count, Flag, Saved, Seconds, SignedCount

if TYPE_CHECKING:
    from jaato_gc.budget.budget import InstructionBudget


class SavedEntry(Saved, extra="ignore"):
    """What `SourceEntry.to_dict` returns, or what jaato-server saved."""

    source: InstructionSource
    tokens: Count
    gc_policy: GCPolicy
    own_gc_policy: GCPolicy | None = None
    label: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: Seconds | None = None
    born: SignedCount = 0
    message_ids: list[str] = Field(default_factory=list)
    children: dict[str, "SavedEntry"] = Field(default_factory=dict)


class SavedConversation(SavedEntry):
    """What `InstructionBudget.get_conversation_snapshot` returns."""

    pinned_message_ids: list[str] = Field(default_factory=list)


class SavedBudget(Saved, extra="ignore"):
    """What `InstructionBudget.snapshot` returns."""

    session_id: str
    agent_id: str
    agent_type: str
    context_limit: SignedCount
    ratio: Annotated[float, Field(ge=LEAST_RATIO, le=GREATEST_RATIO)]
    unbooked_tokens: Count
    pinned_message_ids: list[str]
    collectable_sources: list[InstructionSource]
    is_booked: Flag
    is_recounted: Flag
    collections: SignedCount
    entries: dict[InstructionSource, SavedEntry]


def snapshot_of(budget: "InstructionBudget") -> dict[str, Any]:
    """Returns a whole budget as JSON data: what `SavedBudget` reads, and figures for displays."""
    return {
        "session_id": budget.session_id,
        "agent_id": budget.agent_id,
        "agent_type": budget.agent_type,
        "context_limit": budget.context_limit,
        "total_tokens": budget.total_tokens(),
        "ratio": budget.ratio,
        "unbooked_tokens": budget.unbooked_tokens,
        "confidence": budget.counter.confidence.value,
        "gc_eligible_tokens": budget.gc_eligible_tokens(),
        "locked_tokens": budget.locked_tokens(),
        "fixed_tokens": budget.fixed_tokens(),
        "preservable_tokens": budget.preservable_tokens(),
        "utilization_percent": budget.utilization_percent(),
        "available_tokens": budget.available_tokens(),
        "gc_headroom_percent": budget.gc_headroom_percent(),
        "pinned_message_ids": sorted(budget.pinned_message_ids),
        "collectable_sources": sorted(budget.collectable_sources),
        "is_booked": budget.is_booked,
        "is_recounted": budget.is_recounted,
        "collections": budget.collections,
        "entries": {source.value: entry.to_dict() for source, entry in budget.entries.items()},
    }


def conversation_in(snapshot: Mapping[str, Any]) -> tuple[SavedEntry, list[str]]:
    """Returns the conversation and the pinned messages of a snapshot.

    Args:
        snapshot: A snapshot of the conversation, or of the whole budget.

    Raises:
        GCError: It is something else.
    """
    saved: SavedEntry | None
    conversation = InstructionSource.CONVERSATION
    if isinstance(snapshot, Mapping) and "entries" in snapshot:
        whole = SavedBudget.read(snapshot, "the snapshot of the budget")
        saved, pinned = whole.entries.get(conversation), whole.pinned_message_ids
    else:
        saved = part = SavedConversation.read(snapshot, "the snapshot of the conversation")
        pinned = part.pinned_message_ids
    if saved is None or saved.source is not conversation:
        found = f"one of {saved.source.value!r}" if saved else "a budget without one"
        raise GCError(f"expected a snapshot of the conversation, got {found}")
    return saved, pinned
