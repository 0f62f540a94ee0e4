"""Calling a summarizer: what it is given, and what it has to return."""

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaato_gc.deadline import DeadlineError, is_failure, result_of, within
from jaato_gc.errors import SummaryError
from jaato_gc.messages import Message, Role
from jaato_gc.summaries.validation import NotShorterError, valid_summary
from jaato_gc.tokens import (
    DEFAULT_COUNTER,
    SEPARATOR,
    TokenCounter,
    render,
    split_text,
)

SummarizerFunction = Callable[..., Any]
"""Returns a summary of a text, or of a list of messages if its first argument is named
``messages``. May be async."""

if TYPE_CHECKING:
    import asyncio

HOST_LOOP: contextvars.ContextVar["asyncio.AbstractEventLoop | None"] = contextvars.ContextVar(
    "jaato_gc_host_loop", default=None
)
"""The event loop of an async host whose collection runs in a worker thread."""


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
        seconds = self.timeout_seconds

        def call() -> Any:
            returned = self.function(shown)
            return settle(returned, seconds) if inspect.isawaitable(returned) else returned

        try:
            returned = call() if seconds is None else within(seconds, call)
        except DeadlineError as error:
            raise SummaryError(f"the summarizer took too long: {error}") from error
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


def settle(awaitable: Awaitable[Any], seconds: float | None) -> Any:
    """Waits for an awaitable from plain code: on the host's event loop, or on one of our own.

    On the host's loop it is cancelled if it takes too long, or if the turn is cancelled.
    """
    import asyncio  # here, because most summarizers need no event loop
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await awaitable

    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    loop = HOST_LOOP.get()
    if loop is not None and loop.is_running() and loop is not here:
        future = asyncio.run_coroutine_threadsafe(wait(), loop)
        try:
            return result_of(future, seconds)
        finally:
            future.cancel()  # without effect if it is done
    if here is None:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as another:  # this loop waits for us and can't run anything
        return another.submit(asyncio.run, wait()).result()
