"""Calling a summarizer: what it is given, and what it has to return."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from jaato_gc.calling import CallTimeoutError, call
from jaato_gc.deadline import is_failure
from jaato_gc.errors import SummaryError
from jaato_gc.messages import Message, Role
from jaato_gc.summaries.validation import NotShorterError, valid_summary
from jaato_gc.tokens import (
    DEFAULT_COUNTER,
    SEPARATOR,
    TokenCounter,
    render,
    split_text,
    text_tokens,
)

SummarizerFunction = Callable[..., Any]
"""Returns a summary of a text, or of a list of messages if its first argument is named
``messages``. May be async."""


class _Part(NamedTuple):
    """The input of one call of a summarizer: as text, and as messages."""

    text: str
    messages: list[Message]

    @classmethod
    def of_text(cls, text: str, name: str) -> "_Part":
        return cls(text, [Message.from_text(Role.USER, text, message_id=name)])

    @classmethod
    def joined(cls, parts: Sequence["_Part"]) -> "_Part":
        return cls(
            SEPARATOR.join(part.text for part in parts),
            [message for part in parts for message in part.messages],
        )


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Calls a summarizer function and validates what it returns.

    Args:
        function: Writes the summaries.
        input_tokens: The size of its input.
        timeout_seconds: The time limit of one call; ``None``: no limit.
        counter: Counts the tokens.
    """

    function: SummarizerFunction
    input_tokens: int = 32_000
    timeout_seconds: float | None = None
    counter: TokenCounter = DEFAULT_COUNTER

    def summarize(self, turns: Sequence[Sequence[Message]]) -> str:
        """Returns a valid summary of some turns.

        Content that does not fit the input is summarized part by part, cut between turns if
        possible, and the summaries of the parts are summarized again. A part that is too short to
        get any shorter is used unchanged.

        Raises:
            SummaryError: The function failed, took too long, or returned no usable summary.
        """
        parts = self._fitting(_Part(render(turn), list(turn)) for turn in turns)
        while len(parts) > 1:
            summaries = [
                _Part.of_text(self._shortened(part), f"part-{number}")
                for number, part in enumerate(parts, 1)
            ]
            fewer = self._fitting(summaries)
            if len(fewer) >= len(parts):
                raise SummaryError("the parts' summaries are too long to be summarized together")
            parts = fewer
        if not parts:
            raise SummaryError("there is nothing to summarize")
        return self._call(parts[0])

    def _fitting(self, turns: Iterable[_Part]) -> list[_Part]:
        """Returns the turns in parts that fit the input; a longer turn is cut in pieces."""
        count = partial(text_tokens, counter=self.counter)
        between = count(SEPARATOR)
        runs: list[list[_Part]] = []
        room = 0
        for turn in turns:
            size = count(turn.text)
            if size > self.input_tokens:
                pieces = split_text(turn.text, self.input_tokens, count)
                runs += [
                    [_Part.of_text(piece, f"piece-{number}")]
                    for number, piece in enumerate(pieces, 1)
                ]
                room = 0
            elif between + size <= room:
                runs[-1].append(turn)
                room -= between + size
            else:
                runs.append([turn])
                room = self.input_tokens - size
        return [_Part.joined(run) for run in runs]

    def _shortened(self, part: _Part) -> str:
        try:
            return self._call(part)
        except NotShorterError:
            return part.text

    def _call(self, part: _Part) -> str:
        shown: Any = list(part.messages) if _takes_messages(self.function) else part.text
        try:
            returned = call(self.function, shown, seconds=self.timeout_seconds)
        except CallTimeoutError as error:
            limit = f"more than {self.timeout_seconds:g} s"
            raise SummaryError(f"the summarizer took too long: {limit}") from error
        except BaseException as error:
            import asyncio  # here, because it takes long to import

            # A cancelled summarizer failed, unless its turn was cancelled.
            if not is_failure(error) and not isinstance(error, asyncio.CancelledError):
                raise
            raise SummaryError(f"the summarizer failed: {type(error).__name__}: {error}") from error
        return valid_summary(returned, part.text, self.counter)


def _takes_messages(function: SummarizerFunction) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return first == "messages"
