"""What a host's model callable may return: whole or streamed, now or awaited."""

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jaato_gc._errors import ContextLimitError, GCError
from jaato_gc._messages import FunctionCall, Message, Part, Role

Provider = Callable[[list[Message]], Any]
"""Sends a request to a model.

It may return the answer (a text or a `Message`), that and a `UsageReport` as a tuple, an iterator
of `Chunk`, or an awaitable or an async iterator of those. If the request is too long, it raises
`ContextLimitError` or the SDK's own error.
"""

ToolHandler = Callable[[FunctionCall], Any]
"""Runs a tool call. Returns a `ToolResult`, or any value that becomes one; may be async."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What the provider says about a request: given anywhere in a stream, or with an answer."""

    input_tokens: int
    output_tokens: int = 0


Chunk = str | Part | UsageReport | Message
"""A piece of an answer: text, a whole part (such as a call), a report, or the finished message."""


@dataclass(slots=True)
class Answer:
    """An answer being put together from its chunks."""

    on_text: Callable[[str], None]
    on_usage: Callable[[UsageReport], None]
    has_begun: bool = False
    _parts: list[Part] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _finished: Message | None = None

    def take(self, chunk: Chunk) -> None:
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
            self.on_usage(chunk)
        else:
            raise GCError(
                f"the provider gave {chunk!r:.80}: it may give str, Part, Message and UsageReport"
            )

    def _show(self, text: str | None) -> None:
        if text:
            self.on_text(text)

    def _end_text(self) -> None:
        if self._texts:
            self._parts.append(Part(text="".join(self._texts)))
            self._texts = []

    def message(self) -> Message:
        self._end_text()
        message = self._finished or Message(Role.MODEL, self._parts)
        if message.role is not Role.MODEL:
            raise GCError(f"the provider gave a message of role {message.role!s}, not the model's")
        if message.is_empty:
            raise GCError("the provider gave an empty answer")
        return message

    def collect(self, reply: Any) -> Message:
        """Take in what a synchronous provider returned."""
        refuse_awaitable(reply, "the provider")
        for chunk in _chunks(reply):
            self.take(chunk)
        return self.message()

    async def collect_async(self, reply: Any) -> Message:
        """Take in what any provider returned."""
        if inspect.isawaitable(reply):
            reply = await reply
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
    if isinstance(reply, tuple):  # an answer and the report on it
        return iter(reply)
    try:
        return iter(reply)
    except TypeError:
        raise GCError(
            f"the provider returned {reply!r:.80}: it may return str, Message, or an iterator"
        ) from None


def refuse_awaitable(value: Any, whose: str) -> None:
    """Raise if plain code got something that only an event loop can wait for."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterable):
        if inspect.iscoroutine(value):
            value.close()  # or Python would warn that nobody awaited it
        raise GCError(f"{whose} is asynchronous: use await session.send_message_async(…)")


async def awaited(value: Any) -> Any:
    """The value itself, or what it is waiting for."""
    return await value if isinstance(value, Awaitable) else value


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
    "too many tokens:",  # with a comma instead, it is one provider's word for "slow down"
)


def is_context_refusal(error: Exception) -> bool:
    """Whether an error says that a request was too long for the window.

    `ContextLimitError` does; of other errors, those whose text says so in the words of the large
    providers' APIs.
    """
    if isinstance(error, ContextLimitError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _REFUSALS)
