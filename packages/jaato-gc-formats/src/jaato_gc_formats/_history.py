"""What is read: a history that remembers where it came from, and what a file says beside it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from jaato_gc import Message


class History(list[Message]):
    """The messages of one conversation, and the request that they were read from.

    Args:
        messages: The messages, the system's first where the provider takes it beside them.
        format: Name of the API format that they go back to.
        request: The request they stood in, with all its other fields; ``None`` for a bare list.
    """

    def __init__(
        self, messages: Iterable[Message], format: str, request: dict[str, Any] | None = None
    ) -> None:
        super().__init__(messages)
        self.format = format
        self.request = request


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider reported on one request of a recorded conversation.

    Args:
        input_tokens: Tokens of the request, cached ones included.
        output_tokens: Tokens of the answer.
        position: How many messages the request had; filled in by the reader.
    """

    input_tokens: int
    output_tokens: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that is broken, and where.

    Args:
        what: What is broken, in words.
        line: The line it is in, counted from 1; ``None`` where it is no single line's.
        message_id: The message it is about, if it is about one.
    """

    what: str
    line: int | None = None
    message_id: str | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}" if self.line is not None else self.what


@dataclass(slots=True)
class Conversation:
    """One conversation of a file.

    Args:
        name: What the file calls it; empty where it has no name.
        format: Name of the format that the file is in.
        messages: The messages; their ``format`` is that of the API which they go back to.
        problems: What is broken in it.
        usage: What the provider reported, where the file says so.
        compactions: Where the agent itself compacted its context: positions of the messages that
            the model saw first from then on.
    """

    name: str
    format: str
    messages: History
    problems: list[Problem] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)

    def segments(self) -> list["Conversation"]:
        """The conversation cut where the agent compacted it: what the model saw, piece by piece.

        The last one is what it saw in the end. ``problems`` stay with the whole.
        """
        cuts = [0, *self.compactions, len(self.messages)]
        request = self.messages.request
        return [
            Conversation(
                f"{self.name}#{number}",
                self.format,
                History(self.messages[start:end], self.messages.format, request),
                usage=[
                    Usage(each.input_tokens, each.output_tokens, each.position - start)
                    for each in self.usage
                    if start < each.position <= end
                ],
            )
            for number, (start, end) in enumerate(pairwise(cuts), 1)
        ]
