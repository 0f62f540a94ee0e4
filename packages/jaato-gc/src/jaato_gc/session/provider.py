"""The provider callable of a host, and its answers: whole or streamed, sync or async."""

import inspect
import re
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaato_gc.errors import ContextLimitError, ProviderError
from jaato_gc.messages import FunctionCall, Message, Part, Role

Provider = Callable[[list[Message]], Any]
"""Sends a request to a model and returns the answer.

The answer is a text or a `Message`, a tuple of that and a `UsageReport`, an iterator of `Chunk`, or
an awaitable or async iterator of those. If the request is too long, the callable raises
`ContextLimitError` or the SDK's own error.
"""

ToolHandler = Callable[[FunctionCall], Any]
"""Runs a tool call. Returns a `ToolResult`, or any value that becomes one. May be async."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage that the provider reports for a request, anywhere in a stream or with an answer.

    Args:
        input_tokens: The tokens of the request, including cached ones.
        output_tokens: The tokens of the answer so far.
    """

    input_tokens: int
    output_tokens: int = 0


Chunk = str | Part | UsageReport | Message
"""A piece of an answer: text, a part (such as a call), a usage report, or the whole message."""


@dataclass(slots=True)
class Answer:
    """An answer that is assembled from its chunks.

    Args:
        on_text: Called with each piece of text.
        on_usage: Called with the input and output tokens of each report.
        has_begun: Whether there is any chunk yet.
    """

    on_text: Callable[[str], None]
    on_usage: Callable[[int, int], None]
    has_begun: bool = False
    _parts: list[Part] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _finished: Message | None = None

    def take(self, chunk: Chunk) -> None:
        """Adds a chunk."""
        self.has_begun = True
        if isinstance(chunk, str):
            self._texts.append(chunk)
            self._show(chunk)
        elif isinstance(chunk, Part):
            self._end_text()
            self._parts.append(chunk)
            self._show(chunk.text)
        elif isinstance(chunk, Message):
            if not self._texts and not self._parts:
                self._show(chunk.text)
            self._finished = chunk
        elif isinstance(chunk, UsageReport):
            self.on_usage(chunk.input_tokens, chunk.output_tokens)
        else:
            raise _not_an_answer(chunk)

    def _show(self, text: str | None) -> None:
        if text:
            self.on_text(text)

    def _end_text(self) -> None:
        if self._texts:
            self._parts.append(Part(text="".join(self._texts)))
            self._texts = []

    def message(self) -> Message:
        """Returns the finished message."""
        self._end_text()
        message = self._finished or Message(Role.MODEL, self._parts)
        if message.role is not Role.MODEL:
            raise ProviderError(f"expected role model, the provider gave role {message.role!s}")
        if message.is_empty:
            raise ProviderError("the provider gave an empty answer")
        return message

    async def collect(self, reply: Any, on_loop: bool) -> Message:
        """Returns the answer, assembled from what the provider returned."""
        reply = await awaited(reply, on_loop)
        if not on_loop:
            refuse_awaitable(reply, "the provider")
        if isinstance(reply, AsyncIterable):
            async for chunk in reply:
                self.take(chunk)
        else:
            for chunk in _chunks(reply):
                self.take(chunk)
        return self.message()


def _chunks(reply: Any) -> Iterator[Chunk]:
    if isinstance(reply, str | Message):
        return iter((reply,))
    # Iterating over a dict or a response of an SDK yields the names of its fields.
    if isinstance(reply, Mapping | bytes) or hasattr(reply, "model_dump"):
        raise _not_an_answer(reply)
    try:
        return iter(reply)
    except TypeError:
        raise _not_an_answer(reply) from None


def _not_an_answer(value: Any) -> ProviderError:
    return ProviderError(
        "expected str, Message, or an iterator of str, Part, Message and UsageReport, the provider "
        f"gave {value!r:.80}: for responses of a provider's SDK, use ProviderSession of "
        "jaato-gc-formats"
    )


def refuse_awaitable(value: Any, whose: str) -> None:
    """Raises an error if plain code got something that needs an event loop."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterable):
        if inspect.iscoroutine(value):
            value.close()  # or Python would warn that it was never awaited
        raise ProviderError(f"{whose} is asynchronous: use await session.send_message_async(…)")


async def awaited(value: Any, on_loop: bool) -> Any:
    """Returns the value, awaited if it is awaitable and there is an event loop."""
    return await value if on_loop and inspect.isawaitable(value) else value


_REFUSALS = (
    "context_length_exceeded",
    "context window",
    "context size",
    "exceed context limit",
    "maximum context length",
    "maximum prompt length",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "input token count",
    "too many tokens:",  # with a comma instead, one provider means its rate limit
)


def is_context_refusal(error: Exception) -> bool:
    """Returns whether an error says that a request was too long for the window.

    `ContextLimitError` does, and other errors whose text is that of a large provider's API.
    """
    if isinstance(error, ContextLimitError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _REFUSALS)


_WINDOWS = (
    r"> ([\d,]+)",
    r"maximum (?:context |prompt |input )?length (?:is|of) ([\d,]+)",
    r"maximum number of (?:input )?tokens (?:allowed )?\(?([\d,]+)",
    r"(?:limit|context window|context size|maximum) (?:of|is) ([\d,]+)",
)
SMALLEST_WINDOW = 256
"""A smaller number in an error is something else."""


def window_in(error: Exception) -> int | None:
    """Returns the window that the error of a provider names, if it names one."""
    for pattern in _WINDOWS:
        if match := re.search(pattern, str(error), re.IGNORECASE):
            window = int(match[1].replace(",", "") or 0)
            if window >= SMALLEST_WINDOW:
                return window
    return None
