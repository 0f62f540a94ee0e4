"""Converts a conversation to segments, so that the engine can order its groups for removal."""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from jaato_gc import GCPolicy, Message, Role, count_tokens
from jaato_gc.plugin import Group, TokenCounter, ToolKind, as_text, names_in, strings_in
from jaato_gc_marksweep._engine import GCEngine
from jaato_gc_marksweep._segments import ContextSegment

RECENT_SEGMENTS: Final = 10
"""The number of last segments that are roots."""
COMMON: Final = 8
"""A name that occurs in more segments than this is too common to be a reference to one of them."""

_START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(hours=1)


class Swept(NamedTuple):
    """A group that can be removed, and the reason for its place in the order."""

    group: Group
    cause: str


def in_sweeping_order(
    groups: Sequence[Group],
    tools: Mapping[int, ToolKind],
    held: Set[int],
    old: Set[int],
    places: Sequence[float],
    counter: TokenCounter,
) -> list[Swept]:
    """Returns the unprotected groups in the order of removal: least recently touched first.

    Groups that were touched at the same time are in the order of the engine: those that are not
    reachable from the last or the protected groups first, then by score.

    Args:
        groups: The groups of a conversation, oldest first.
        tools: The kind of tool in each group, by ``id(group)``.
        held: ``id(group)`` of the protected groups.
        old: ``id(group)`` of the groups in the old generation.
        places: Where each group stands by the last touch of its files.
        counter: Counts tokens.
    """
    segments = [
        ContextSegment(
            str(position),
            "",
            type=_type_of(group, tools.get(id(group))),
            created_at=_time(places[position]),
            last_touched_at=_time(max(places[position], used_at)),
            pinned=id(group) in held,
            generation="old" if id(group) in old else "young",
            references=references,
            tokens=count_tokens(group.messages, counter),
        )
        for position, (group, used_at, references) in enumerate(
            zip(groups, *_find_references(groups), strict=True)
        )
    ]
    engine = GCEngine(prune_reachable=True, now=lambda: _time(len(groups)))
    roots = {segment.segment_id for segment in segments[-RECENT_SEGMENTS:]}
    candidates = engine.analyze_pruning_candidates(segments, roots)
    last = [at for at in range(len(groups)) if at >= len(groups) - RECENT_SEGMENTS]
    causes = {int(each.segment_id): each.reason for each in candidates}
    causes |= {at: "one of the last exchanges" for at in last if id(groups[at]) not in held}
    return [Swept(groups[at], causes[at]) for at in sorted(causes, key=lambda at: places[at])]


def _find_references(groups: Sequence[Group]) -> tuple[list[int], list[set[str]]]:
    """Returns for each group the position of its last use, and the groups that it refers to.

    A group refers to an earlier one if the model writes a name in it that last occurred in the
    model's input in the earlier group.
    """
    used_at = list(range(len(groups)))
    references: list[set[str]] = [set() for _ in groups]
    seen_in: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        texts = [pair for message in group.messages for pair in _texts(message)]
        for name in names_in("\n".join(text for is_output, text in texts if is_output)):
            positions = seen_in.get(name, ())
            if 0 < len(positions) <= COMMON:
                used_at[positions[-1]] = position
                references[position].add(str(positions[-1]))
        for name in names_in("\n".join(text for is_output, text in texts if not is_output)):
            seen_in.setdefault(name, []).append(position)
    return used_at, references


def _texts(message: Message) -> Iterator[tuple[bool, str]]:
    """Yields the texts of a message, each with whether the model wrote it."""
    for part in message.parts:
        if part.text:
            yield message.role is Role.MODEL, part.text
        if part.function_call:
            yield True, "\n".join(strings_in(part.function_call.args))
        if part.function_response:
            yield False, as_text(part.function_response.result)


def _time(position: float) -> datetime:
    """Returns a time for a group: one hour per group, so that 24 groups score as a day."""
    return _START + position * _STEP


def _type_of(group: Group, kind: ToolKind | None) -> str:
    """Returns the segment type of a group: user messages score lowest, tool output highest."""
    first = group.messages[0]
    if first.synthetic:
        return "summary"
    if group.policy is GCPolicy.EPHEMERAL:
        return "log"
    if kind is not None:
        return "code" if kind in (ToolKind.READ, ToolKind.EDIT) else "log"
    return "decision" if first.role is Role.USER else "message"
