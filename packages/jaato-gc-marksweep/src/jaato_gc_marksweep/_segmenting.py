"""A conversation as segments that refer to each other, for the engine to mark and to score."""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from jaato_gc import GCPolicy, Group, Message, Role, TokenCounter, as_text, count_tokens
from jaato_gc_marksweep._engine import GCEngine
from jaato_gc_marksweep._names import names_in
from jaato_gc_marksweep._segments import ContextSegment
from jaato_gc_marksweep._tool_uses import Kind, strings_in

RECENT_SEGMENTS: Final = 10
"""So many of the last segments are roots."""
COMMON: Final = 8
"""A name that more segments show than this does not tell which of them is meant."""

_START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(hours=1)


class Swept(NamedTuple):
    """A group that may go, and why it does so in this place of the order."""

    group: Group
    cause: str


def in_sweeping_order(
    groups: Sequence[Group],
    tools: Mapping[int, Kind],
    old: Set[int],
    counter: TokenCounter,
) -> list[Swept]:
    """The groups that nothing protects, those first that are least likely to be needed again.

    First what the roots (the last groups, and the protected ones) do not lead to, by the engine's
    score; then what they lead to; last those of the last groups that may go.

    Args:
        groups: The groups of a conversation, oldest first.
        tools: What the tools in a group do, by the group's identity.
        old: Identities of the groups of the old generation.
        counter: Counts tokens.
    """
    segments = [
        ContextSegment(
            str(position),
            type=_type_of(group, tools.get(id(group))),
            created_at=_time(position),
            last_touched_at=_time(used_at),
            pinned=group.hold is not None,
            generation="old" if id(group) in old else "young",
            references=references,
            tokens=count_tokens(group.messages, counter),
        )
        for position, (group, used_at, references) in enumerate(
            zip(groups, *_follow_names(groups), strict=True)
        )
    ]
    engine = GCEngine(prune_reachable=True, now=lambda: _time(len(groups)))
    roots = {segment.id for segment in segments[-RECENT_SEGMENTS:]}
    candidates = engine.analyze_pruning_candidates(segments, roots)
    order = [Swept(groups[int(each.segment_id)], each.reason) for each in candidates]
    last = [group for group in groups[-RECENT_SEGMENTS:] if not group.hold]
    return [*order, *(Swept(group, "one of the last exchanges") for group in last)]


def _follow_names(groups: Sequence[Group]) -> tuple[list[int], list[set[str]]]:
    """For each group: which group used it last, and which groups it uses itself.

    A group uses an earlier one if the model says a name in it that the earlier one was the last to
    show.
    """
    used_at = list(range(len(groups)))
    references: list[set[str]] = [set() for _ in groups]
    shown_by: dict[str, list[int]] = {}
    for position, group in enumerate(groups):
        texts = [pair for message in group.messages for pair in _texts(message)]
        for name in names_in("\n".join(text for is_said, text in texts if is_said)):
            holders = shown_by.get(name, ())
            if 0 < len(holders) <= COMMON:
                used_at[holders[-1]] = position
                references[position].add(str(holders[-1]))
        for name in names_in("\n".join(text for is_said, text in texts if not is_said)):
            shown_by.setdefault(name, []).append(position)
    return used_at, references


def _texts(message: Message) -> Iterator[tuple[bool, str]]:
    """The texts of a message, and whether the model said them or was shown them."""
    for part in message.parts:
        if part.text:
            yield message.role is Role.MODEL, part.text
        if part.function_call:
            yield True, "\n".join(strings_in(part.function_call.args))
        if part.function_response:
            yield False, as_text(part.function_response.result)


def _time(position: int) -> datetime:
    """Each group counts as an hour, so that a couple of dozen make a day in the engine's score."""
    return _START + position * _STEP


def _type_of(group: Group, kind: Kind | None) -> str:
    """What the engine's score calls such a group: what users say is dearest, output least."""
    first = group.messages[0]
    if first.synthetic:
        return "summary"
    if group.policy is GCPolicy.EPHEMERAL:
        return "log"
    if kind is not None:
        return "code" if kind in (Kind.READ, Kind.EDIT) else "log"
    return "decision" if first.role is Role.USER else "message"
