"""What the logs that agents keep on disk have in common: they are read, and go back to an API."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar

from jaato_gc import Message
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._history import Conversation, History, Problem, Usage
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields


@dataclass(frozen=True, slots=True)
class Beside:
    """What a request has beside its messages: the system prompt, tools. Stands first."""

    fields: Fields


@dataclass(frozen=True, slots=True)
class Compaction:
    """Here the agent replaced all that came before by what comes next."""


Item = Any
"""One of the provider's items, as its API format reads them; as a `Record` with its line."""
Dialogue = Iterator[Item | Record | Beside | Usage | Compaction | Problem]
"""The items of a conversation, in order. A `Usage` stands before the answer that it came with."""


class LogFormat(ABC):
    """A log: translates its records into the items of the API that was talked to.

    Args:
        api: The format of that API.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, api: ApiFormat) -> None:
        self.api = api

    @abstractmethod
    def recognize(self, records: Sequence[Any]) -> float:
        """How sure it is, from 0 to 1, that these records are of such a log.

        0 says that none of them bears any resemblance: a record of an unknown kind is skipped, one
        that resembles nothing is reported.
        """

    @abstractmethod
    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        """The conversations in a file, by name. ``records`` can be gone through again."""

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """The conversations of a file, one in memory at a time."""
        for name, dialogue in self.dialogues(records):
            reading = _Reading(self.api)
            for item in dialogue:
                reading.take(item)
            yield reading.finished(name, self.name)

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        """The messages of a file, one in memory at a time."""
        for _name, dialogue in self.dialogues(records):
            first = next(dialogue, None)
            if isinstance(first, Beside):
                yield from self.api.to_history({**first.fields, self.api.items_key: []})
            yield from self.api.read(
                item.value if isinstance(item, Record) else item
                for item in chain([first] if first else [], dialogue)
                if not isinstance(item, Beside | Usage | Compaction | Problem)
            )


@dataclass(slots=True)
class _Reading:
    """One conversation, as far as it was read."""

    api: ApiFormat
    messages: list[Message] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)
    request: Fields | None = None
    names: dict[str, str] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    batch: list[Item] = field(default_factory=list)
    """What was said in one request or answer: it is read together."""

    def take(self, item: Any) -> None:
        match item:
            case Problem():
                self.problems.append(item)
            case Beside(fields):
                history = self.api.to_history({**fields, self.api.items_key: []})
                self.messages += history
                self.request = history.request
            case Usage():
                self._flush()
                self.usage.append(replace(item, position=len(self.messages)))
            case Compaction():
                self._flush()
                if self.messages:
                    self.compactions.append(len(self.messages))
            case Record(line, value):
                self.lines.append(line)
                self.batch.append(value)
            case _:
                self.batch.append(item)

    def _flush(self) -> None:
        self.messages += self.api.read(self.batch, self.names)
        self.batch = []

    def finished(self, name: str, format: str) -> Conversation:
        self._flush()
        history = History(self.messages, self.api.name, self.request)
        self.problems += located(self.api.problems(history), self.lines)
        compactions = [each for each in self.compactions if each < len(history)]
        return Conversation(name, format, history, self.problems, self.usage, compactions)


_WHERE = re.compile(r"\w+[.[](\d+)")


def located(problems: Iterable[Problem], lines: Sequence[int]) -> list[Problem]:
    """Problems with the lines that they are in, told by the number of the item that they name."""
    found = []
    for problem in problems:
        where = _WHERE.match(problem.what)
        if problem.line is None and where and int(where[1]) < len(lines):
            problem = replace(problem, line=lines[int(where[1])])
        found.append(problem)
    return found
