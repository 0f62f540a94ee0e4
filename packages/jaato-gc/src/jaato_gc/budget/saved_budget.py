"""The strict models of a saved budget.

What snapshots have for displays is left out: it is worked out again.
"""

from typing import Any

from pydantic import Field

from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.saved import Count, Flag, Saved, Seconds, SignedCount


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
    correction: SignedCount
    pinned_message_ids: list[str]
    collectable_sources: list[InstructionSource]
    is_booked: Flag
    is_recounted: Flag
    collections: SignedCount
    entries: dict[InstructionSource, SavedEntry]
