"""The base class of the log formats."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar

from jaato_gc import Message
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._history import Conversation, History, Moment, Problem, Usage, main_model
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields


@dataclass(frozen=True, slots=True)
class Beside:
    """The fields of a request other than the messages: the system prompt and the tools.

    `LogFormat.dialogues` yields it before the first message.
    """

    fields: Fields


@dataclass(frozen=True, slots=True)
class Compaction:
    """The point at which the agent replaced all earlier messages by the following ones."""


@dataclass(frozen=True, slots=True)
class AnsweredBy:
    """The name of the model that gave an answer.

    `LogFormat.dialogues` yields it before each answer, or once if the log names one model for the
    whole conversation.
    """

    model: str


Item = Any
"""An item that the API format can read; a `Record` adds the line that it comes from."""
Note = Usage | Moment | AnsweredBy | Compaction | Problem
"""A fact about the conversation that is not part of its messages."""
Dialogue = Iterator[Item | Record | Beside | Note]
"""The items of a conversation, in order.

A `Usage`, a `Moment` and an `AnsweredBy` come before the response that they belong to.
"""


class LogFormat(ABC):
    """The format of a log: translates its records into items of a provider's API.

    Args:
        api: The format of the API that the agent used.
    """

    name: ClassVar[str]
    """Name of the format, such as ``claude-code``."""
    summary: ClassVar[str]
    """Description of the format in one line, for lists."""

    def __init__(self, api: ApiFormat) -> None:
        self.api = api

    @abstractmethod
    def recognize(self, records: Sequence[Any]) -> float:
        """Returns the confidence, from 0 to 1, that the records are of such a log.

        Return 0 only if no record resembles the log. In a file of this format, a record with a
        confidence of 0 is reported as a problem; other records of an unknown kind are skipped.
        """

    @abstractmethod
    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        """Yields the name and the items of each conversation in a file.

        ``records`` can be iterated more than once.
        """

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """Yields the conversations of a file, with one in memory at a time."""
        for name, dialogue in self.dialogues(records):
            builder = _ConversationBuilder(self.api)
            for item in dialogue:
                builder.add(item)
            yield builder.build(name, self.name)

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        """Yields the messages of a file, with one in memory at a time."""
        for _name, dialogue in self.dialogues(records):
            items = (item for item in dialogue if not isinstance(item, Note))
            first = next(items, None)
            if isinstance(first, Beside):
                yield from self.api.to_history({**first.fields, self.api.items_key: []})
            yield from self.api.read(
                item.value if isinstance(item, Record) else item
                for item in chain([first] if first else [], items)
                if not isinstance(item, Beside)
            )


@dataclass(slots=True)
class _ConversationBuilder:
    """Collects the items of one conversation."""

    api: ApiFormat
    messages: list[Message] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    request: Fields | None = None
    names: dict[str, str] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    batch: list[Item] = field(default_factory=list)
    """Items that are not yet read. The items of one request or response are read together."""

    def add(self, item: Any) -> None:
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
            case Moment():
                self._flush()
                self.moments.append(replace(item, position=len(self.messages)))
            case AnsweredBy(model):
                self.models.append(model)
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

    def build(self, name: str, format: str) -> Conversation:
        self._flush()
        history = History(self.messages, self.api.name, self.request)
        self.problems += with_lines(self.api.problems(history), self.lines)
        compactions = [each for each in self.compactions if each < len(history)]
        return Conversation(
            name,
            format,
            history,
            self.problems,
            self.usage,
            compactions,
            self.moments,
            main_model(self.models),
        )


_WHERE = re.compile(r"\w+[.[](\d+)")


def with_lines(problems: Iterable[Problem], lines: Sequence[int]) -> list[Problem]:
    """Adds line numbers to problems that name the position of an item.

    Args:
        problems: The problems.
        lines: The line of each item.
    """
    found = []
    for problem in problems:
        where = _WHERE.match(problem.what)
        if problem.line is None and where and int(where[1]) < len(lines):
            problem = replace(problem, line=lines[int(where[1])])
        found.append(problem)
    return found
