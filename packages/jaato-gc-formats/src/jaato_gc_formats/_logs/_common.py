"""What several logs need to be read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaato_gc_formats._history import Problem, Usage
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SURE = 0.97
"""Confidence of a log that has recognised every record as its own."""
LIKELY = 0.6
"""Confidence of a log that has recognised one."""
A_RESEMBLANCE = 0.1
"""Confidence in records of an unknown kind that may well be of that log."""


def resemblance(
    records: Sequence[Any],
    *,
    own: Callable[[Fields], bool],
    like: Callable[[Fields], bool],
    least: float = LIKELY,
) -> float:
    """How sure it is that some records are of a log.

    Args:
        records: The records.
        own: Whether a record is surely of it.
        like: Whether a record may be of it, of a kind that is not known.
        least: How sure it is if only one of them is its own.
    """
    objects = [record for record in records if isinstance(record, dict)]
    found = sum(own(record) for record in objects)
    if found:
        return least + (SURE - least) * found / len(objects)
    return A_RESEMBLANCE if any(like(record) for record in objects) else 0.0


def objects(records: Iterable[Record]) -> Iterator[Record]:
    """The records that have fields."""
    return (record for record in records if isinstance(record.value, dict))


def fields_in(value: Any) -> Fields:
    """A value that should be an object; an empty one where it isn't."""
    return value if isinstance(value, dict) else {}


def list_in(value: Any) -> list[Any]:
    """A value that should be a list; an empty one where it isn't."""
    return value if isinstance(value, list) else []


def fields_among(value: Any) -> list[Fields]:
    """The objects in a value that should be a list of them."""
    return [each for each in list_in(value) if isinstance(each, dict)]


def text_in(value: Any) -> str:
    """A value that should be a text; an empty one where it isn't."""
    return value if isinstance(value, str) else ""


def number_in(value: Any) -> int:
    """A value that should be a count of tokens; 0 where it isn't."""
    return value if isinstance(value, int) and value > 0 else 0


def usage_of(reported: Any, sent: Iterable[str], received: Iterable[str]) -> Iterator[Usage]:
    """What a log says on the tokens of one request, from the fields that add up to it."""
    counts = fields_in(reported)
    tokens = sum(number_in(counts.get(name)) for name in sent)
    if tokens:
        yield Usage(tokens, sum(number_in(counts.get(name)) for name in received))


def blocks_of(content: Any) -> list[Any]:
    """Content as a list of blocks: a text becomes one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list_in(content)


class Node(NamedTuple):
    """A record of a log that is a tree: each names the one before it.

    Args:
        number: Which record of the file it is.
        line: The line it is in.
        id: Its id.
        parent: The record before it; ``None`` for the first.
        is_message: Whether something is said in it.
        may_stand_alone: Whether it is in order that its parent is not in the file.
    """

    number: int
    line: int
    id: str
    parent: str | None
    is_message: bool
    may_stand_alone: bool = False


def active_branch(nodes: Sequence[Node]) -> tuple[set[int], list[Problem]]:
    """Numbers of the records from the first to the last message; rewinds leave others behind.

    Where a parent is not in the file, the record before is taken for it.
    """
    positions = {node.id: position for position, node in reversed(list(enumerate(nodes)))}
    messages = [position for position, node in enumerate(nodes) if node.is_message]
    position = messages[-1] if messages else -1
    lowest = position
    branch: set[int] = set()
    problems: list[Problem] = []
    while position >= 0:
        node = nodes[position]
        if node.number in branch:
            problems.append(Problem("its parents form a circle", node.line))
            position = lowest = lowest - 1
            continue
        branch.add(node.number)
        lowest = min(lowest, position)
        if node.parent is None:
            break
        if node.parent in positions:
            position = positions[node.parent]
        else:
            position -= 1
            if position >= 0 and not node.may_stand_alone:
                problems.append(Problem("its parent is not in the file", node.line))
    return branch, problems
