"""The summary contract: what a summarizer is shown, and what it has to return."""

import asyncio
import contextvars
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaato_gc._errors import SummaryError
from jaato_gc._messages import Message, Role
from jaato_gc._rendering import render, split_text
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter
from jaato_gc._workers import DeadlineError, within

SummarizerFunction = Callable[..., Any]
"""Writes a summary: ``str -> str``, or of a list of messages if its first argument is called
``messages``; may be async. It is called outside of any stream, and may take its time."""

HOST_LOOP: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar(
    "jaato_gc_host_loop", default=None
)
"""The event loop of an async host whose collection runs in a worker."""

CHARACTERS_PER_TOKEN = 2
"""Few enough that a piece of text of so many characters per token fits in any script but CJK."""

_ERROR_LIKE = re.compile(
    r"\s*(?:traceback \(most recent call last\)"
    r"|\{\s*[\"']?error\b"
    r"|(?:api |internal |http |server |fatal )*error\b\s*[:\d(]"
    r"|(?:http/\S+ )?(?:4\d\d|5\d\d) [a-z ]*(?:error|requests|unavailable|timeout|unauthorized)"
    r"|rate limit|request timed out|exception:)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\s*(?:i(?:'|\u2019)?m (?:very )?sorry|sorry,|i apologi[sz]e"
    r"|i (?:can(?:'|\u2019)?t|cannot|am unable to|am not able to|won(?:'|\u2019)?t)\b"
    r"|as an ai\b|unfortunately,? i (?:can|am))",
    re.IGNORECASE,
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
        parts' summaries are summarized in turn.

        Raises:
            SummaryError: There is none: the function failed, took too long, or what it returned is
                no summary.
        """
        parts = self._parts(turns)
        while True:
            summaries = [self._call(part) for part in parts]
            if len(summaries) == 1:
                return summaries[0]
            joined = [
                [Message.from_text(Role.USER, summary, message_id=f"part-{number}")]
                for number, summary in enumerate(summaries, 1)
            ]
            fewer = self._parts(joined)
            if len(fewer) >= len(parts):
                raise SummaryError("the parts' summaries are too long to be summarized together")
            parts = fewer

    def _parts(self, turns: Sequence[Sequence[Message]]) -> list[list[Message]]:
        """The turns in runs that fit; one that does not fit alone is cut in pieces."""
        parts: list[list[Message]] = []
        room = 0
        for turn in turns:
            text = render(turn)
            size = self.counter.count_text(text)
            if size > self.input_tokens:
                pieces = split_text(text, self.input_tokens * CHARACTERS_PER_TOKEN)
                parts += [
                    [Message.from_text(Role.USER, piece, message_id=f"piece-{number}")]
                    for number, piece in enumerate(pieces, 1)
                ]
                room = 0
            elif size <= room:
                parts[-1].extend(turn)
                room -= size
            else:
                parts.append(list(turn))
                room = self.input_tokens - size
        return parts

    def _call(self, messages: list[Message]) -> str:
        text = render(messages)
        shown: Any = messages if _takes_messages(self.function) else text
        try:
            if self.timeout_seconds is None:
                returned = _settled(self.function(shown), None)
            else:
                seconds = self.timeout_seconds
                returned = within(seconds, lambda: _settled(self.function(shown), seconds))
        except DeadlineError as error:
            raise SummaryError(f"the summarizer took too long: {error}") from error
        except (Exception, asyncio.CancelledError) as error:
            raise SummaryError(f"the summarizer failed: {type(error).__name__}: {error}") from error
        return valid_summary(returned, text, self.counter)


def valid_summary(returned: Any, shown: str, counter: TokenCounter = DEFAULT_COUNTER) -> str:
    """What a summarizer returned, if it is a summary of what it was shown.

    Raises:
        SummaryError: It is not.
    """
    if not isinstance(returned, str):
        raise SummaryError(f"the summarizer returned {type(returned).__name__}, not text")
    summary = returned.strip()
    if not summary:
        raise SummaryError("the summarizer returned nothing")
    if any("\ud800" <= character <= "\udfff" for character in summary):
        raise SummaryError("the summarizer returned text that is not valid Unicode")
    if _ERROR_LIKE.match(summary):
        raise SummaryError(f"the summarizer returned an error text: {summary!r:.80}")
    if _REFUSAL.match(summary):
        raise SummaryError(f"the summarizer refused: {summary!r:.80}")
    if summary == shown.strip() or counter.count_text(summary) >= counter.count_text(shown):
        raise SummaryError("the summarizer returned something no shorter than what it was shown")
    return summary


def _takes_messages(function: SummarizerFunction) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return first == "messages"


def _settled(returned: Any, seconds: float | None) -> Any:
    """What was returned, or what it is waiting for: on the host's loop, or on one of our own."""
    if not inspect.isawaitable(returned):
        return returned

    async def wait() -> Any:
        return await returned

    loop = HOST_LOOP.get()
    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(wait(), loop).result(seconds)
    return asyncio.run(wait())
