"""A streamed response that is added to the history when it is complete."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from jaato_gc import Message

Event = TypeVar("Event")
Add = Callable[[Sequence[Any]], list[Message]]


class AnswerStream(Generic[Event]):
    """Yields the events of a stream unchanged, and adds the response at the end.

    Args:
        events: The stream of the provider's client.
        add: Called with all events when the stream has ended.

    Attributes:
        messages: The added messages; empty until the stream has ended.
    """

    def __init__(self, events: Iterable[Event], add: Add) -> None:
        self.messages: list[Message] = []
        self._events = events
        self._add = add

    def __iter__(self) -> Iterator[Event]:
        seen: list[Event] = []
        for event in self._events:
            seen.append(event)
            yield event
        self.messages = self._add(seen)


class AsyncAnswerStream(Generic[Event]):
    """`AnswerStream` for an async client.

    Args:
        events: The stream of the provider's client.
        add: Called with all events when the stream has ended.

    Attributes:
        messages: The added messages; empty until the stream has ended.
    """

    def __init__(self, events: AsyncIterable[Event], add: Add) -> None:
        self.messages: list[Message] = []
        self._events = events
        self._add = add

    async def __aiter__(self) -> AsyncIterator[Event]:
        seen: list[Event] = []
        async for event in self._events:
            seen.append(event)
            yield event
        self.messages = self._add(seen)
