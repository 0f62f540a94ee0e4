"""The summary contract: what a summarizer is shown, and what it has to return."""

import asyncio
import contextvars
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaato_gc._errors import SummaryError
from jaato_gc._messages import Message, Role
from jaato_gc._rendering import SEPARATOR, render, split_text
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter
from jaato_gc._workers import DeadlineError, within

SummarizerFunction = Callable[..., Any]
"""Writes a summary: ``str -> str``, or of a list of messages if its first argument is called
``messages``; may be async. It is called outside of any stream, and may take its time."""

HOST_LOOP: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar(
    "jaato_gc_host_loop", default=None
)
"""The event loop of an async host whose collection runs in a worker."""

# Only how a text begins is looked at: a summary may well speak of errors and apologies.
_ERROR = re.compile(
    r"""\W*(?:
    traceback\ \(most\ recent\ call\ last\)
    | (?:(?:type|status|code)\W+)?error["']\s*[:,}]            # JSON
    | (?<=[<!])(?:html|doctype)\b
    | (?:\w+\.)*\w*(?:error|exception)\W*:
    | error\ code\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_SHORT_ERROR = re.compile(
    r"""\W*(?:
    (?:(?:an?|the|api|internal|http|server|fatal|unexpected|connection|network|unknown)\ )*error
        (?:\ (?:\d+|calling|generating|summari[sz]ing|occurred)\b|\W*(?:[:(.!]|$))
    | (?:https?\S*\ )?(?:status\ )?[45]\d\d\W+(?:bad|too\ many|internal\ server|service|gateway
        |server|client|unauthorized|forbidden|not\ found|payment|payload|request|overloaded)\b
    | (?:rate\ ?limit(?:ed)?|quota|context\ length)\W*(?:error|exceeded|reached|hit\b|$)
    | (?:too\ many\ requests|overloaded|no\ response)\b
    | (?:the\ )?(?:service|model|server)\ (?:is\ )?(?:currently\ )?(?:unavailable|overloaded)
    | (?:the\ )?(?:request|connection|call)\ (?:was\ )?(?:failed|timed\ out|aborted|refused|reset)\b
    | (?:failed|unable)\ to\ (?:generate|summari[sz]e|create|produce|connect|fetch|call)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LONGEST_SHORT_ERROR = 300
_REFUSAL = re.compile(
    r"""\W*(?:
    (?:i(?:['\u2019]?m|\ am)\ (?:very\ |so\ |really\ )?)?sorry\b,?\ (?:but|for|to|i|that\ i)\b
    | i(?:['\u2019]?m|\ am)\ (?:afraid|unable|not\ able|not\ allowed)\b
    | (?:i|my)\ apolog(?:i[sz]e|ies)\b
    | i\ (?:can['\u2019]?t|can\ ?not|won['\u2019]?t|will\ not|must\ decline)\b
    | i\ (?:don['\u2019]?t|do\ not)\ (?:see|have)\ (?:an?y?|the|enough|access)\b
    | as\ an\ ai\b(?:\ \w+){0,3},?\ i\b
    | unfortunately,?\ i\b
    | please\ provide\b
    | there(?:['\u2019]s|\ is)\ (?:no|nothing)\ (?:conversation|text|content|to\ summari[sz]e)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


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


class _NotShorterError(SummaryError):
    """What was returned is no summary: it is as long as what it is about."""


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
        except _NotShorterError:
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
        except (Exception, asyncio.CancelledError) as error:
            raise SummaryError(f"the summarizer failed: {type(error).__name__}: {error}") from error
        return valid_summary(returned, part.text, self.counter)


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
    short = summary[: _LONGEST_SHORT_ERROR + 1]
    if _ERROR.match(summary) or (short == summary and _SHORT_ERROR.match(summary)):
        raise SummaryError(f"the summarizer returned an error text: {summary!r:.80}")
    if _REFUSAL.match(summary):
        raise SummaryError(f"the summarizer refused: {summary!r:.80}")
    if summary == shown.strip() or counter.count_text(summary) >= counter.count_text(shown):
        detail = "the summarizer returned something no shorter than what it was shown"
        raise _NotShorterError(detail)
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

    here = _loop_of_this_thread()
    loop = HOST_LOOP.get()
    if loop is not None and loop.is_running() and loop is not here:
        future = asyncio.run_coroutine_threadsafe(wait(), loop)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():  # its own time limit, not ours
                raise
            future.cancel()
            raise DeadlineError(f"more than {seconds:g} s") from error
    if here is None:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as another:  # this loop is waiting for us: it can't run anything
        return another.submit(asyncio.run, wait()).result()


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
