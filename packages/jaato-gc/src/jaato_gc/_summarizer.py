"""The summary contract: what a summarizer is shown, and what it has to return."""

import contextvars
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaato_gc._errors import SummaryError
from jaato_gc._messages import Message, Role
from jaato_gc._rendering import SEPARATOR, render, split_text
from jaato_gc._summary_checks import NotShorterError, valid_summary
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter
from jaato_gc._workers import DeadlineError, within

SummarizerFunction = Callable[..., Any]
"""Writes a summary: ``str -> str``, or of a list of messages if its first argument is called
``messages``; may be async. It is called outside of any stream, and may take its time."""

if TYPE_CHECKING:
    import asyncio

HOST_LOOP: contextvars.ContextVar["asyncio.AbstractEventLoop | None"] = contextvars.ContextVar(
    "jaato_gc_host_loop", default=None
)
"""The event loop of an async host whose collection runs in a worker."""


class _Part(NamedTuple):
    """What a summarizer is shown at once: as text, and as messages."""

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
    """A summarizer function under contract.

    Args:
        function: Writes the summaries.
        input_tokens: How much it can be shown at once.
        timeout_seconds: How long one call may take; ``None``: as long as it likes.
        counter: What tokens are counted with.
    """

    function: SummarizerFunction
    input_tokens: int = 32_000
    timeout_seconds: float | None = None
    counter: TokenCounter = DEFAULT_COUNTER

    def summarize(self, turns: Sequence[Sequence[Message]]) -> str:
        """A valid summary of some turns.

        What does not fit at once is summarized part by part, cut at turns where possible, and the
        parts' summaries are summarized in turn. A part that is too short to get any shorter stands
        for itself.

        Raises:
            SummaryError: There is none: the function failed, took too long, or what it returned is
                no summary.
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
        """The turns in runs that fit; one that does not fit alone is cut in pieces."""
        between = self.counter.count_text(SEPARATOR)
        runs: list[list[_Part]] = []
        room = 0
        for turn in turns:
            size = self.counter.count_text(turn.text)
            if size > self.input_tokens:
                pieces = split_text(turn.text, self.input_tokens, self.counter.count_text)
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
            if self.timeout_seconds is None:
                returned = _settled(self.function(shown), None)
            else:
                seconds = self.timeout_seconds
                returned = within(seconds, lambda: _settled(self.function(shown), seconds))
        except DeadlineError as error:
            raise SummaryError(f"the summarizer took too long: {error}") from error
        except BaseException as error:
            if not _is_failure(error):
                raise
            raise SummaryError(f"the summarizer failed: {type(error).__name__}: {error}") from error
        return valid_summary(returned, part.text, self.counter)


def _takes_messages(function: SummarizerFunction) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return first == "messages"


def _settled(returned: Any, seconds: float | None) -> Any:
    if not inspect.isawaitable(returned):
        return returned
    from jaato_gc._awaiting import settle  # here, because most summarizers need no event loop

    return settle(returned, seconds)


def _is_failure(error: BaseException) -> bool:
    """Whether a summarizer has failed: a cancelled one, too, though that is no `Exception`."""
    asyncio = sys.modules.get("asyncio")
    return isinstance(error, Exception) or (
        asyncio is not None and isinstance(error, asyncio.CancelledError)
    )
