"""Context segments, the unit that the engine marks and sweeps."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from jaato_gc import GCError, estimate_tokens
from jaato_gc_marksweep._times import utc_now

Generation = Literal["young", "old"]

REFERENCE_TAG: Final = "ref:"
"""The prefix of a tag that is a reference: ``ref:<id>``."""


@dataclass(slots=True)
class ContextSegment:
    """A piece of context: a message, a file's content, a log, a decision.

    Times without a time zone are in UTC. Times in the future count as now.

    Args:
        id: The id, unique among the segments of one analysis.
        text: The content.
        type: ``message``, ``decision``, ``summary``, ``code``, ``note``, ``log``, or a custom type.
        task_id: The task that the segment belongs to.
        file_path: The file that the segment is about. Paths are compared as strings.
        created_at: The time of creation. Default: now.
        last_touched_at: The time of the last use. Default: ``created_at``.
        pinned: Whether the segment is always kept, together with all segments reachable from it.
        generation: ``young`` or ``old``; `GCEngine.record_collection` sets it.
        survival_count: The number of collections that the segment has survived.
        refcount: The number of other segments that refer to this one. The engine sets it.
        tags: Any labels. ``ref:<id>`` is a reference.
        references: Ids of the segments that this one refers to. Unknown ids are ignored.
        topic: The topic of the segment.
        tokens: The size in tokens. Estimated from the text if missing or negative.
    """

    id: str
    text: str = ""
    type: str = "message"
    task_id: str | None = None
    file_path: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    last_touched_at: datetime = None  # type: ignore[assignment]  # never after __post_init__
    pinned: bool = False
    generation: Generation = "young"
    survival_count: int = 0
    refcount: int = 0
    tags: Collection[str] = ()
    references: Collection[str] = ()
    topic: str | None = None
    tokens: int = -1

    def __post_init__(self) -> None:
        if self.last_touched_at is None:
            self.last_touched_at = self.created_at
        if self.tokens < 0:
            self.tokens = estimate_tokens(self.text)
        # A string is a collection of letters, which would be silently ignored as unknown ids.
        if isinstance(self.references, str) or isinstance(self.tags, str):
            raise GCError(
                f"segment {self.id!r}: references and tags: expected a collection of strings, got "
                "one string: put it into a list"
            )
        if not isinstance(self.references, set):
            self.references = set(self.references)

    def referenced_ids(self) -> Collection[str]:
        """Returns the ids in ``references`` and in ``ref:`` tags.

        They can include unknown ids and the segment's own id.
        """
        if not self.tags:  # the common case, without a copy
            return self.references
        start = len(REFERENCE_TAG)
        return {
            *self.references,
            *(tag[start:] for tag in self.tags if tag.startswith(REFERENCE_TAG)),
        }
