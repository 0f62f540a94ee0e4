"""What is marked and swept: pieces of context that refer to each other."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from jaato_gc import GCError, estimate_tokens
from jaato_gc_marksweep._times import utc_now

Generation = Literal["young", "old"]

REFERENCE_TAG: Final = "ref:"
"""How a tag begins that is a reference: ``ref:<id>``."""


@dataclass(slots=True)
class ContextSegment:
    """A piece of context: a message, a file's content, a log, a decision.

    Times without a zone are in UTC, and times yet to come count as now.

    Args:
        id: What references and plans call it. Ids are unique among the segments of one analysis.
        text: Its content.
        type: ``message``, ``decision``, ``summary``, ``code``, ``note``, ``log``, or your own.
        task_id: The task it belongs to.
        file_path: The file it is about. Paths are compared as written.
        created_at: When it was made; now, if not given.
        last_touched_at: When it was last used; when it was made, if not given.
        pinned: It never goes, nor does what it refers to.
        generation: ``old`` after some collections: see `GCEngine.record_collection`.
        survival_count: Collections it has survived.
        refcount: How many other segments refer to it. The engine counts.
        tags: Any labels. ``ref:<id>`` is a reference.
        references: Ids of what it refers to. Those that name no segment are ignored.
        topic: What it is about.
        tokens: Its size; estimated from the text if not given, or negative.
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
        # A string is a collection of its letters, each of which would be an unknown reference.
        if isinstance(self.references, str) or isinstance(self.tags, str):
            raise GCError(
                f"segment {self.id!r}: references and tags are collections of strings, "
                "not one string: put it into a list"
            )
        if not isinstance(self.references, set):
            self.references = set(self.references)

    def referenced_ids(self) -> Collection[str]:
        """Ids of what it refers to, by field and by tag: perhaps unknown ones, or its own."""
        if not self.tags:  # the usual case, and then nothing has to be copied
            return self.references
        start = len(REFERENCE_TAG)
        return {
            *self.references,
            *(tag[start:] for tag in self.tags if tag.startswith(REFERENCE_TAG)),
        }
