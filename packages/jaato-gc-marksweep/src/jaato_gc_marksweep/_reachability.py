"""The mark phase: which segments can be reached from the roots."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, compress, repeat

from jaato_gc import GCError
from jaato_gc_marksweep._segments import ContextSegment


def mark(roots: Iterable[str], references: Mapping[str, Collection[str]]) -> set[str]:
    """The roots, and all that they lead to: each segment and each reference is seen once.

    Ids stay strings. Numbering them first would take longer than all the lookups that it saves.
    """
    marked = set(roots)
    stack = list(marked)
    while stack:
        for target in references.get(stack.pop(), ()):
            if target not in marked:
                marked.add(target)
                stack.append(target)
    return marked


class ReferenceGraph:
    """What segments refer to, made ready for counting and for marking as often as needed.

    Segments are numbered as they come. That looks up each reference once, all the rest goes by
    number: in large contexts it is such lookups that take the time.

    Args:
        segments: The segments. References to ids that none of them has are ignored.

    Raises:
        GCError: Two segments have the same id.
    """

    def __init__(self, segments: Sequence[ContextSegment]) -> None:
        self._numbers = {segment.id: number for number, segment in enumerate(segments)}
        if len(self._numbers) < len(segments):
            raise _duplicate_id(segments)
        self._referenced = [
            segment.referenced_ids() if segment.tags else segment.references for segment in segments
        ]
        nowhere = len(segments)
        self._targets = list(
            map(self._numbers.get, chain.from_iterable(self._referenced), repeat(nowhere))
        )
        # Those of segment n are from ends[n] to ends[n + 1]; nowhere leads nowhere.
        self._ends = [0, *accumulate(map(len, self._referenced)), len(self._targets)]

    def by_id(self) -> dict[str, Collection[str]]:
        """What each segment refers to: ids of segments, unknown ids, perhaps its own."""
        return dict(zip(self._numbers, self._referenced, strict=True))

    def refcounts(self) -> list[int]:
        """For each segment, how many others refer to it."""
        counted = Counter(self._targets)
        counts = [counted.get(number, 0) for number in range(len(self._numbers))]
        for number, (id, referenced) in enumerate(
            zip(self._numbers, self._referenced, strict=True)
        ):
            if id in referenced:
                counts[number] -= 1
        return counts

    def marks(self, roots: Iterable[str]) -> list[bool]:
        """For each segment, whether it is among the roots or they lead to it."""
        numbers, targets, ends = self._numbers, self._targets, self._ends
        marked = [False] * (len(numbers) + 1)
        # In order, since neighbours mostly refer to each other and are close in memory too.
        stack = sorted([numbers[root] for root in roots if root in numbers])
        while stack:
            number = stack.pop()
            if not marked[number]:
                marked[number] = True
                stack += targets[ends[number] : ends[number + 1]]
        return marked[:-1]

    def reachable_from(self, roots: Iterable[str]) -> set[str]:
        """Ids of the segments among the roots, and of all that they lead to."""
        return set(compress(self._numbers, self.marks(roots)))


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
