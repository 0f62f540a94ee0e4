"""A request: the messages of a session at one moment."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import SupportsIndex, overload

from jaato_gc.messages import Message


class Request(Sequence[Message]):
    """The messages of a request, as they were when it was made.

    It is a read-only view, so making one costs the same however long the history is. Later changes
    of the session do not show in it. ``list(request)`` makes a list.

    Args:
        messages: A list that only ever grows at its end.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._length = len(messages)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._length)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Message | list[Message]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Request({list(self)!r})"
