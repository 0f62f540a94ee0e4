"""Files as a sequence of JSON values, whatever they are packed in."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Record(NamedTuple):
    """One JSON value of a file: a line, an element of its array, or all of it."""

    line: int
    value: Any


def in_memory(data: Any) -> Iterable[Record]:
    """Data that is at hand already, as records."""
    values = data if isinstance(data, list | tuple) else [data]
    return _InMemory(values)


class _InMemory:
    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Record]:
        return (Record(number, value) for number, value in enumerate(self._values, 1))
