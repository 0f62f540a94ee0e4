"""Keeps the cache marks of removed messages: each moves to the nearest earlier one that is left."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jaato_gc import Message
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._marks import find_mark


class Moved(NamedTuple):
    """A mark that moved, and the message that it came from."""

    mark: Any
    source: str


class CacheMarks:
    """Moves the marks of messages that a collection removed.

    A mark goes back when an undo brings its message back. There are never more marks than the host
    gave. Nothing of this is saved: after a restore, marks that have moved are gone.

    Args:
        api: The format, which says where a mark may be.
        messages: The messages so far.
    """

    def __init__(self, api: ApiFormat, messages: Iterable[Message] = ()) -> None:
        self._api = api
        self._order: list[str] = []
        self._own: dict[str, Any] = {}
        self._moved: dict[str, Moved] = {}
        self.follow(messages)

    def follow(self, messages: Iterable[Message]) -> None:
        """Takes note of new messages, which may be removed before they are sent."""
        for message in messages:
            self._order.append(message.message_id)
            if mark := self._mark_of(message):
                self._own[message.message_id] = mark

    def placed(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the messages of the next request, with the marks of those that are missing."""
        left = {message.message_id: message for message in messages}
        holders = {**self._moved, **{key: Moved(mark, key) for key, mark in self._own.items()}}
        order, self._order = self._order, list(left)
        self._own = {key: mark for key in left if (mark := self._mark_of(left[key]))}
        self._moved = {}
        if not holders:
            return list(messages)
        for place, holder in enumerate(order):
            moved = holders.get(holder)
            if moved and moved.source not in left:
                self._place(moved, [each for each in order[place::-1] if each in left], left)
        return [left[message.message_id] for message in messages]

    def _place(self, moved: Moved, earlier: list[str], left: dict[str, Message]) -> None:
        """Gives a mark to the nearest message that can have it, unless that one has one already.

        Args:
            moved: The mark.
            earlier: The messages that are left, from the nearest on.
            left: All messages of the request. The one that gets the mark is replaced.
        """
        for message_id in earlier:
            if message_id in self._own:
                return
            if marked := self._api.with_mark(left[message_id], moved.mark):
                left[message_id] = marked
                self._moved[message_id] = moved
                return

    def _mark_of(self, message: Message) -> Any:
        """Returns the last mark of a message; ``None`` if it has none."""
        found = None
        if self._api.mark_field:
            for part in message.parts:
                if part.extra:
                    found = find_mark(part.extra, self._api.mark_field) or found
        return found
