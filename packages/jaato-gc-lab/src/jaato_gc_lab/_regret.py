"""Measures regret: names that the model used after a collection removed them from the context.

The measure compares strings only. An agent may not need a name, or may guess it or look it up
again. Use regret to compare strategies on the same recording.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from jaato_gc import Message
from jaato_gc.plugin import as_text
from jaato_gc_lab._reports import Loss

_WORD = re.compile(r"[A-Za-z0-9_./#@:-]{4,120}")
_MARK = re.compile(r"[0-9_/.]")
_LETTER = re.compile(r"[A-Za-z]")
_CAMEL_CASE = re.compile(r"[a-z][A-Z]")
_DIGIT = re.compile(r"[0-9]")
_MIN_LENGTH = 6
_MIN_DIGITS = 4


class Regret:
    """Tracks which names a context shows and records names that are used after their removal.

    A name is shown by any message of the user, a tool or the model, and by the stubs, notices and
    summaries of a collection. It is lost if a collection removes the last message that shows it,
    and the model then uses it in text or in a call before another message shows it. Each lost name
    counts once, even if the model uses it several times. A name that the model mentions first does
    not count.

    Each message is parsed once, when it is added. The number of used names depends on the
    recording only and is the same for every strategy.
    """

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.names_used = 0
        self._recorded: set[str] = set()
        self._shown: dict[str, int] = {}
        self._removed: dict[str, int] = {}
        self._names: dict[str, frozenset[str]] = {}

    def add_recorded(self, message: Message) -> None:
        """Adds a message of the recording."""
        self.add(message)
        self._recorded |= self._names[message.message_id]

    def add(self, message: Message) -> None:
        """Adds a message that a collection produced."""
        names = frozenset().union(*map(names_in, _shown_texts(message)))
        self._names[message.message_id] = names
        for name in names:
            self._shown[name] = self._shown.get(name, 0) + 1
            self._removed.pop(name, None)

    def remove(self, message: Message, collection: int) -> None:
        """Removes a message.

        Args:
            message: The message.
            collection: Position of the collection in the list of collections.
        """
        for name in self._names.pop(message.message_id):
            self._shown[name] -= 1
            if not self._shown[name]:
                self._removed[name] = collection

    def use(self, answer: Iterable[Message], request: int) -> None:
        """Records the names that an answer uses. Call it before the answer is added.

        Args:
            answer: Messages of the answer.
            request: Position of the answered request in the list of requests.
        """
        mentioned: frozenset[str] = frozenset()
        for message in answer:
            mentioned = mentioned.union(*map(names_in, _written_texts(message)))
        used = sorted(mentioned & self._recorded)
        self.names_used += len(used)
        self.losses.extend(
            Loss(name, request, self._removed[name]) for name in used if name in self._removed
        )


@lru_cache(maxsize=8192)  # the same recording is parsed for every strategy and window
def names_in(text: str) -> frozenset[str]:
    """Returns the names in a text: paths, identifiers and numbers.

    An identifier has six characters or more and contains a digit, an underscore, a slash, a dot or
    camel case. A number, a date or a time has four digits or more.
    """
    words = {word.strip("./:#-") for word in _WORD.findall(text)}
    return frozenset(filter(_is_name, words))


def _is_name(word: str) -> bool:
    if not _LETTER.search(word):
        return len(_DIGIT.findall(word)) >= _MIN_DIGITS
    return len(word) >= _MIN_LENGTH and bool(_MARK.search(word) or _CAMEL_CASE.search(word))


def _shown_texts(message: Message) -> Iterator[str]:
    """Yields all texts of a message, including thoughts and tool results."""
    yield from _written_texts(message)
    for part in message.parts:
        if part.thought:
            yield part.thought
        if part.function_response:
            yield as_text(part.function_response.result)


def _written_texts(message: Message) -> Iterator[str]:
    """Yields the text of a message and the arguments of its calls."""
    for part in message.parts:
        if part.text:
            yield part.text
        if part.function_call:
            yield from _values(part.function_call.args)


def _values(value: Any) -> Iterator[str]:
    """Yields the texts and numbers in the arguments of a call, without keys."""
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
