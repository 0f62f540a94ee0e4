"""The mark phase: finds the segments that are reachable from the roots."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from jaato_gc import GCError
from jaato_gc_marksweep._segments import ContextSegment

References = Mapping[str, Collection[str]]
"""The ids that each segment refers to, by segment id."""


def mark(roots: Iterable[str], references: dict[str, Collection[str]]) -> set[str]:
    """Returns the roots and all ids that are reachable from them.

    Visits each segment and each reference at most once. Most references go from later segments to
    earlier ones, so one pass from the last segment to the first, in memory order, marks nearly
    everything. References in the other direction are followed afterwards.
    """
    # Ids are not mapped to integers: building the mapping takes longer than it saves.
    marked = set(roots)
    unmarked: list[str] = []
    for segment_id, targets in reversed(references.items()):
        if segment_id in marked:
            marked.update(targets)
        elif targets:
            unmarked.append(segment_id)
    stack = [segment_id for segment_id in unmarked if segment_id in marked]
    while stack:
        for target in references.get(stack.pop(), ()):
            if target not in marked:
                marked.add(target)
                stack.append(target)
    return marked


def collect_references(segments: Sequence[ContextSegment]) -> dict[str, Collection[str]]:
    """Returns the ids that each segment refers to, including unknown ids.

    Raises:
        GCError: Two segments have the same id.
    """
    references = {
        segment.id: segment.referenced_ids() if segment.tags else segment.references
        for segment in segments
    }
    if len(references) != len(segments):
        raise _duplicate_id(segments)
    return references


def _duplicate_id(segments: Sequence[ContextSegment]) -> GCError:
    seen: dict[str, int] = {}
    for position, segment in enumerate(segments):
        first = seen.setdefault(segment.id, position)
        if first != position:
            return GCError(
                f"segments {first} and {position} of {len(segments)} have the same id "
                f"{segment.id!r}: use unique ids, because references could mean either segment"
            )
    raise AssertionError("called without a duplicate id")


def count_references(segments: Sequence[ContextSegment], references: References) -> None:
    """Sets the refcount of each segment to the number of other segments that refer to it."""
    counts = Counter(dict.fromkeys(references, 0))
    counts.update(chain.from_iterable(references.values()))
    # zip is safe: the first counts are those of the segments, in order; unknown ids follow.
    for segment, referenced, count in zip(
        segments, references.values(), counts.values(), strict=False
    ):
        segment.refcount = count - 1 if segment.id in referenced else count
