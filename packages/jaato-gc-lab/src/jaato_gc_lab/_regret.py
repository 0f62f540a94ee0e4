"""What was lost: names that the model went on to use after the context had ceased to show them.

It is a matter of strings, not of understanding: an agent may do without a name, guess it or look it
up again. Strategies are compared by it, on the same recording.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from jaato_gc import Message, as_text
from jaato_gc_lab._reports import Loss

_WORD = re.compile(r"[A-Za-z0-9_./#@:-]{4,120}")
_MARK = re.compile(r"[0-9_/.]")
_LETTER = re.compile(r"[A-Za-z]")
_HUMP = re.compile(r"[a-z][A-Z]")
_DIGIT = re.compile(r"[0-9]")
_SHORTEST_NAME = 6
_FEWEST_DIGITS = 4


class Regret:
    """Follows which names a context shows, and notes which are used after they were taken.

    A name is told by any message: of the user, of a tool, of the model itself, and by the stubs,
    notes and summaries that a collection leaves. It is lost if a collection takes the last message
    that shows it and the model then says it, in its text or in a call, before anything else has
    shown it again. It is lost once then, however often it is said. A name that the model says
    first is no loss.

    Each message is read once, when it comes; a collection costs as much as it changes. How many
    names are used depends on the recording alone: it is the same for every strategy.
    """

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.names_used = 0
        self._told: set[str] = set()
        self._shown: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._names: dict[str, frozenset[str]] = {}

    def tell(self, message: Message) -> None:
        """A message of the recording has come."""
        self.add(message)
        self._told |= self._names[message.message_id]

    def add(self, message: Message) -> None:
        """A message has come from a collection."""
        names = frozenset().union(*map(names_in, _texts(message)))
        self._names[message.message_id] = names
        for name in names:
            self._shown[name] = self._shown.get(name, 0) + 1
            self._taken.pop(name, None)

    def remove(self, message: Message, collection: int) -> None:
        """A message has gone.

        Args:
            message: The message.
            collection: Position, in the list of collections, of the one that took it.
        """
        for name in self._names.pop(message.message_id):
            self._shown[name] -= 1
            if not self._shown[name]:
                self._taken[name] = collection

    def use(self, answer: Iterable[Message], request: int) -> None:
        """The model has answered, and its answer is not in the context yet.

        Args:
            answer: What it said.
            request: Position, in the list of requests, of the one that it answered.
        """
        said: frozenset[str] = frozenset()
        for message in answer:
            said = said.union(*map(names_in, _words(message)))
        used = sorted(said & self._told)
        self.names_used += len(used)
        self.losses.extend(
            Loss(name, request, self._taken[name]) for name in used if name in self._taken
        )


@lru_cache(maxsize=8192)  # the same recording is read again for every strategy and window
def names_in(text: str) -> frozenset[str]:
    """The words of a text that name something: paths, identifiers, numbers.

    An identifier has six characters or more, with a digit, an underscore, a slash, a dot or a hump
    among its letters; a number, a date or a time has four digits or more.
    """
    words = {word.strip("./:#-") for word in _WORD.findall(text)}
    return frozenset(filter(_is_name, words))


def _is_name(word: str) -> bool:
    if not _LETTER.search(word):
        return len(_DIGIT.findall(word)) >= _FEWEST_DIGITS
    return len(word) >= _SHORTEST_NAME and bool(_MARK.search(word) or _HUMP.search(word))


def _texts(message: Message) -> Iterator[str]:
    """All that a message shows."""
    yield from _words(message)
    for part in message.parts:
        if part.thought:
            yield part.thought
        if part.function_response:
            yield as_text(part.function_response.result)


def _words(message: Message) -> Iterator[str]:
    """What is said in it, and what its calls are given."""
    for part in message.parts:
        if part.text:
            yield part.text
        if part.function_call:
            yield from _values(part.function_call.args)


def _values(value: Any) -> Iterator[str]:
    """The texts and numbers in a call's arguments: no keys, nothing escaped."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _values(each)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
