"""The mark phase: finds the segments that are reachable from the roots."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from jaato_gc import GCError
from jaato_gc_marksweep._segments import ContextSegment

References = Mapping[str, Collection[str]]
"""The ids that each segment refers to, by segment id."""


def mark(roots: Iterable[str], references: References) -> set[str]:
    """Returns the roots and all ids that are reachable from them.

    Visits each segment and each reference at most once.
    """
    marked = set(roots)
    stack = list(marked)
    while stack:
        for target in references.get(stack.pop(), ()):
            if target not in marked:
                marked.add(target)
                stack.append(target)
    return marked


def collect_references(segments: Sequence[ContextSegment]) -> dict[str, set[str]]:
    """Returns the ids that each segment refers to, including unknown ids.

    Raises:
        GCError: Two segments have the same id.
    """
    references: dict[str, set[str]] = {}
    for position, segment in enumerate(segments):
        if segment.segment_id in references:
            raise GCError(
                f"segment {position} of {len(segments)} has the id {segment.segment_id!r} of an "
                "earlier one: use unique ids, because references could mean either segment"
            )
        references[segment.segment_id] = segment.referenced_ids()
    return references


def count_references(references: References) -> Counter[str]:
    """Returns the number of other segments that refer to each id."""
    return Counter(
        target
        for segment_id, targets in references.items()
        for target in targets
        if target != segment_id
    )


def link_topics(
    segments: Iterable[ContextSegment], references: Mapping[str, set[str]]
) -> dict[str, set[str]]:
    """Returns the references, and one from each member of a topic to the next member.

    The last member refers to the first, so that all are reachable from each of them, with as many
    references as members.
    """
    topics: dict[str, list[str]] = {}
    for segment in segments:
        if segment.topic_id:
            topics.setdefault(segment.topic_id, []).append(segment.segment_id)
    linked = dict(references)
    for members in topics.values():
        for member, following in pairwise([*members, members[0]]):
            linked[member] = {*references[member], following}
    return linked
