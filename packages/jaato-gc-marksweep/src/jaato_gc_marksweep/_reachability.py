"""The mark phase: which segments can be reached from the roots."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from jaato_gc import GCError
from jaato_gc_marksweep._segments import ContextSegment

References = Mapping[str, Collection[str]]
"""What each segment refers to, by id."""


def mark(roots: Iterable[str], references: dict[str, Collection[str]]) -> set[str]:
    """The roots, and all that they lead to: each segment and each reference is seen once.

    What is said later refers to what was said before. So one pass from the last segment to the
    first finds nearly all, in the order in which it lies in memory; what is referred to from before
    it is followed after that. Ids stay strings: numbering them takes longer than it saves.
    """
    marked = set(roots)
    passed: list[str] = []
    for segment_id, targets in reversed(references.items()):
        if segment_id in marked:
            marked.update(targets)
        elif targets:
            passed.append(segment_id)
    stack = [segment_id for segment_id in passed if segment_id in marked]
    while stack:
        for target in references.get(stack.pop(), ()):
            if target not in marked:
                marked.add(target)
                stack.append(target)
    return marked


def collect_references(segments: Sequence[ContextSegment]) -> dict[str, Collection[str]]:
    """What each segment refers to, by id; ids of unknown segments are still among it.

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
                f"{segment.id!r}: references could mean either, so give each an id of its own"
            )
    raise AssertionError("called although all ids differ")


def count_references(segments: Sequence[ContextSegment], references: References) -> None:
    """Set the refcount of each segment to the number of other segments that refer to it."""
    counts = Counter(dict.fromkeys(references, 0))
    counts.update(chain.from_iterable(references.values()))
    # The segments come first, in their order. Ids that no segment has come after them.
    for segment, referenced, count in zip(
        segments, references.values(), counts.values(), strict=False
    ):
        segment.refcount = count - 1 if segment.id in referenced else count
