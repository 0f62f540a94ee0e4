"""What the logs that agents keep on disk have in common: they are read, and go back to an API."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from jaato_gc import Message
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._history import Conversation, History, Problem, Usage
from jaato_gc_formats._records import Record

Item = Any
"""One of the provider's items, as its API format reads them."""
Dialogue = Iterator[Item | Usage | Problem]
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
        """How sure it is, from 0 to 1, that these records are of such a log."""

    @abstractmethod
    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        """The conversations in a file, by name. ``records`` can be gone through again."""

    def conversations(self, records: Iterable[Record]) -> Iterator[Conversation]:
        """The conversations of a file, one in memory at a time."""
        for name, dialogue in self.dialogues(records):
            yield self._read(name, dialogue)

    def messages(self, records: Iterable[Record]) -> Iterator[Message]:
        """The messages of a file, one in memory at a time."""
        for _name, dialogue in self.dialogues(records):
            yield from self.api.read(
                item for item in dialogue if not isinstance(item, Usage | Problem)
            )

    def _read(self, name: str, dialogue: Dialogue) -> Conversation:
        messages: list[Message] = []
        usage: list[Usage] = []
        problems: list[Problem] = []
        names: dict[str, str] = {}
        batch: list[Item] = []  # of one request: what is said in one answer is read together
        for item in dialogue:
            if isinstance(item, Problem):
                problems.append(item)
            elif isinstance(item, Usage):
                messages += self.api.read(batch, names)
                batch = []
                usage.append(Usage(item.input_tokens, item.output_tokens, len(messages)))
            else:
                batch.append(item)
        messages += self.api.read(batch, names)
        history = History(messages, self.api.name)
        problems += self.api.problems(history)
        return Conversation(name, self.name, history, problems, usage)
