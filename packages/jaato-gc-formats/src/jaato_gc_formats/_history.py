"""The results of reading: histories, conversations, reported usage, times and problems."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from jaato_gc import Message


class History(list[Message]):
    """A list of the messages of one conversation, with the request that they were read from.

    Args:
        messages: The messages. A system prompt from a separate field of the request comes first.
        format: Name of the API format that `from_messages` writes them in.
        request: The request that contained them, with all its other fields. ``None`` if they were
            read from a list of messages.
    """

    def __init__(
        self, messages: Iterable[Message], format: str, request: dict[str, Any] | None = None
    ) -> None:
        super().__init__(messages)
        self.format = format
        self.request = request


@dataclass(frozen=True, slots=True)
class Usage:
    """The token usage that a provider reported for one request of a recorded conversation.

    Args:
        input_tokens: Tokens of the request, including cached tokens.
        output_tokens: Tokens of the response.
        position: Number of messages in the request. The reader fills it in.
    """

    input_tokens: int
    output_tokens: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The time at which a model's answer was recorded.

    Args:
        at: The time in seconds since the epoch. If the log does not name the time zone, UTC is
            assumed, so that only the difference between two moments is reliable.
        position: Number of messages before the answer. The reader fills it in.
    """

    at: float
    position: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem found in a file.

    Args:
        what: Description of the problem.
        line: The line with the problem, starting at 1. ``None`` if it is not in a single line.
        message_id: Id of the message with the problem, if it is in one message.
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
        name: The conversation's name in the file; empty if it has none.
        format: Name of the file's format.
        messages: The messages. Their ``format`` is the API format that they are written in.
        problems: Problems found in the conversation.
        usage: The usage that the provider reported, if the file records it.
        compactions: Positions at which the agent compacted its context: each is the position of
            the first message that the model saw after a compaction.
        moments: The times at which the model's answers were recorded, by position, if the file
            records them.
        model: Name of the model that gave most of the answers, as the file spells it; by default,
            the one that the request names. ``None`` if the file names none.
    """

    name: str
    format: str
    messages: History
    problems: list[Problem] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    compactions: list[int] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    model: str | None = None

    def __post_init__(self) -> None:
        if self.model is None:
            named = (self.messages.request or {}).get("model")
            self.model = named if isinstance(named, str) and named else None

    def segments(self) -> list["Conversation"]:
        """Splits the conversation at its compactions and returns the pieces.

        Each piece is what the model saw between two compactions; the last one is what it saw at the
        end. ``problems`` are not copied to the pieces. A moment is in the piece with its answer.
        The model is that of the whole conversation.
        """
        total = len(self.messages)
        cuts = [0, *self.compactions, total]
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
                moments=[
                    replace(each, position=each.position - start)
                    for each in self.moments
                    if start <= each.position < end or each.position == end == total
                ],
                model=self.model,
            )
            for number, (start, end) in enumerate(pairwise(cuts), 1)
        ]


def main_model(answered: Sequence[str]) -> str | None:
    """Returns the model that gave most answers; of several, the one that gave the last of them.

    Args:
        answered: The model of each answer, in order.
    """
    # Of equal counts, `max` returns the first in the order of insertion, which is reversed here.
    counts = Counter(reversed(answered))
    return max(counts, key=counts.__getitem__, default=None)
