"""Helpers for reading logs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jaato_gc_formats._history import Moment, Problem, Usage
from jaato_gc_formats._log_format import AnsweredBy
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SURE = 0.97
"""Confidence if every record is certainly of the log."""
LIKELY = 0.6
"""Confidence if at least one record is certainly of the log."""
WEAK = 0.1
"""Confidence if records of an unknown kind resemble the log."""
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""Earliest time that is accepted. Lower numbers are counters or placeholders such as 0."""
LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""End of the times that are accepted."""
LONGEST_DATE = len("2000-01-01")
"""Length of the longest text with a date but no time of day."""


def resemblance(
    records: Sequence[Any],
    *,
    own: Callable[[Fields], bool],
    like: Callable[[Fields], bool],
    least: float = LIKELY,
) -> float:
    """Returns the confidence that records are of a log.

    Args:
        records: The records.
        own: Returns whether a record is certainly of the log.
        like: Returns whether a record of an unknown kind may be of the log.
        least: Minimum confidence if at least one record is certainly of the log.
    """
    objects = [record for record in records if isinstance(record, dict)]
    found = sum(own(record) for record in objects)
    if found:
        return least + (SURE - least) * found / len(objects)
    return WEAK if any(like(record) for record in objects) else 0.0


def objects(records: Iterable[Record]) -> Iterator[Record]:
    """Yields the records that are objects."""
    return (record for record in records if isinstance(record.value, dict))


def fields_in(value: Any) -> Fields:
    """Returns the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_in(value: Any) -> list[Any]:
    """Returns the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def fields_among(value: Any) -> list[Fields]:
    """Returns the objects in a list; an empty list if the value is not a list."""
    return [each for each in list_in(value) if isinstance(each, dict)]


def text_in(value: Any) -> str:
    """Returns the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def number_in(value: Any) -> int:
    """Returns the value if it is a positive integer, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def usage_of(reported: Any, sent: Iterable[str], received: Iterable[str]) -> Iterator[Usage]:
    """Yields the usage that a log reports for one request, if it reports any.

    Args:
        reported: The log's usage report.
        sent: Fields that add up to the tokens of the request.
        received: Fields that add up to the tokens of the response.
    """
    counts = fields_in(reported)
    tokens = sum(number_in(counts.get(name)) for name in sent)
    if tokens:
        yield Usage(tokens, sum(number_in(counts.get(name)) for name in received))


def moment_of(*times: Any) -> Iterator[Moment]:
    """Yields the moment of the first value that is a time, if there is one.

    Args:
        times: Values of a log that may be times, the preferred one first.
    """
    for value in times:
        if (time := _time_in(value)) is not None:
            yield Moment(time)
            return


def answered_by(*names: Any) -> Iterator[AnsweredBy]:
    """Yields the first value that can be the name of a model, if there is one.

    Args:
        names: Values of a log that may name the model, the preferred one first.
    """
    if model := next(filter(None, map(text_in, names)), None):
        yield AnsweredBy(model)


def _time_in(value: Any) -> float | None:
    """Returns a time in seconds since the epoch; ``None`` if the value is not a time.

    The value is a text in ISO 8601, or a number of seconds or milliseconds since the epoch. A text
    without a time zone is read as UTC. A date without a time of day is not a time.
    """
    if isinstance(value, str):
        return _time_in_text(value.strip())
    if not isinstance(value, int | float) or not EARLIEST <= value < LATEST * 1000:
        return None
    seconds = value if value < LATEST else value / 1000
    return float(seconds) if seconds >= EARLIEST else None


def _time_in_text(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return seconds if len(text) > LONGEST_DATE and EARLIEST <= seconds < LATEST else None


def blocks_of(content: Any) -> list[Any]:
    """Returns content as a list of blocks. A string becomes one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list_in(content)


class Node(NamedTuple):
    """A record of a log in which each record names its parent.

    Args:
        number: Position of the record among the objects of the file.
        line: The line of the record.
        id: The id of the record.
        parent: The id of the parent; ``None`` for the first record.
        is_message: Whether the record contains a message.
        may_lack_parent: Whether it is no problem if the parent is not in the file.
    """

    number: int
    line: int
    id: str
    parent: str | None
    is_message: bool
    may_lack_parent: bool = False


def active_branch(nodes: Sequence[Node]) -> tuple[set[int], list[Problem]]:
    """Returns the numbers of the records on the branch of the last message, and problems.

    If a parent is not in the file, the previous record is used in its place.
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
            problems.append(Problem("the parents of the record form a cycle", node.line))
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
            if position >= 0 and not node.may_lack_parent:
                problems.append(Problem("the parent of the record is not in the file", node.line))
    return branch, problems
