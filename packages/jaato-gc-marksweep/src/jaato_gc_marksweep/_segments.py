"""Context segments, the unit that the engine marks and sweeps."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from jaato_gc import GCError, estimate_tokens
from jaato_gc_marksweep._times import utc_now

Generation = Literal["young", "old"]
"""Whether a segment survived enough collections to be old."""

REFERENCE_TAG: Final = "ref:"
"""The prefix of a tag that is a reference: ``ref:<id>``."""


@dataclass(slots=True)
class ContextSegment:
    """A piece of context: a message, a file's content, a log, a decision.

    A time without a time zone is local time, as ``datetime.now()`` returns it. Use
    ``datetime.now(UTC)`` for UTC, not ``datetime.utcnow()``. Times in the future count as now.

    Args:
        segment_id: The id, unique among the segments of one analysis.
        text: The content.
        type: ``message``, ``decision``, ``summary``, ``code``, ``note``, ``log``, or a custom type.
        project_id: The project of the segment. For the host; the engine does not use it.
        task_id: The task of the segment.
        created_at: The time of creation. Default: now.
        last_touched_at: The time of the last use. Default: ``created_at``.
        pinned: Whether the segment is always kept, together with all segments reachable from it.
        generation: ``young`` or ``old``; `GCEngine.record_collection` sets it.
        gc_survival_count: The number of collections that the segment has survived.
        refcount: The number of references that the host knows of. An analysis counts the
            references among its segments too, and uses the larger number.
        file_path: The file that the segment is about. Paths are compared as strings.
        line_range: The first and the last line. For the host; the engine does not use it.
        tags: Any labels. ``ref:<id>`` is a reference.
        references: Ids of the segments that this one refers to. Unknown ids are ignored.
        topic_id: The topic of the segment. If one segment of a topic is reachable, all are.
            Membership in a topic does not count as a reference.
        tokens: The size in tokens. ``None``: estimated from the text when needed.
        tier: Where the segment is stored. For the host; the engine does not use it.
    """

    segment_id: str
    text: str
    type: str = "message"
    project_id: str | None = None
    task_id: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    last_touched_at: datetime = None  # type: ignore[assignment]  # never after __post_init__
    pinned: bool = False
    generation: Generation = "young"
    gc_survival_count: int = 0
    refcount: int = 0
    file_path: str | None = None
    line_range: tuple[int, int] | None = None
    tags: list[str] = field(default_factory=list)
    references: set[str] = field(default_factory=set)
    topic_id: str | None = None
    tokens: int | None = None
    tier: str | None = None

    def __post_init__(self) -> None:
        if self.last_touched_at is None:
            self.last_touched_at = self.created_at
        # A string is a collection of letters, which would be silently ignored as unknown ids.
        if isinstance(self.references, str) or isinstance(self.tags, str):
            raise GCError(
                f"segment {self.segment_id!r}: references and tags: expected a collection of "
                "strings, got one string: put it into a list"
            )
        if self.tokens is not None and self.tokens < 0:
            raise GCError(
                f"segment {self.segment_id!r}: tokens: expected 0 or more, or None for an "
                f"estimate, got {self.tokens}"
            )
        if self.refcount < 0:
            raise GCError(
                f"segment {self.segment_id!r}: refcount: expected 0 or more, got {self.refcount}"
            )

    def referenced_ids(self) -> set[str]:
        """Returns the ids in ``references`` and in ``ref:`` tags.

        They can include unknown ids and the segment's own id.
        """
        by_tag = (
            tag.removeprefix(REFERENCE_TAG) for tag in self.tags if tag.startswith(REFERENCE_TAG)
        )
        return {*self.references, *by_tag}

    def count_tokens(self) -> int:
        """Returns ``tokens``, or an estimate from the text if it is ``None``."""
        return estimate_tokens(self.text) if self.tokens is None else self.tokens
