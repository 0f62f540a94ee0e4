"""What a host's model callable may return: whole or streamed, now or awaited."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
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
    parts: list[Part] = field(default_factory=list)
    finished: Message | None = None
    has_begun: bool = False

    def take(self, chunk: Chunk) -> None:
        self.has_begun = True
        if isinstance(chunk, UsageReport):
            self.on_usage(chunk)
        elif isinstance(chunk, Message):
            self.finished = chunk
        elif isinstance(chunk, Part):
            self.parts.append(chunk)
        elif isinstance(chunk, str):
            if self.parts and self.parts[-1].text is not None:
                self.parts[-1].text += chunk
            else:
                self.parts.append(Part(text=chunk))
            self.on_text(chunk)
        else:
            raise GCError(
                f"the provider gave {chunk!r:.80}: it may give str, Part, Message and UsageReport"
            )

    def message(self) -> Message:
        if self.finished is not None:
            return self.finished
        if all(part.is_empty for part in self.parts):
            raise GCError("the provider gave an empty answer")
        return Message(Role.MODEL, self.parts)

    def collect(self, reply: Any) -> Message:
        """Take in what a synchronous provider returned."""
        if inspect.isawaitable(reply) or isinstance(reply, AsyncIterator):
            if inspect.iscoroutine(reply):
                reply.close()
            raise GCError("the provider is asynchronous: use await session.send_message_async(…)")
        for chunk in _chunks(reply):
            self.take(chunk)
        return self.message()

    async def collect_async(self, reply: Any) -> Message:
        """Take in what any provider returned."""
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, AsyncIterator):
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


async def awaited(value: Any) -> Any:
    """The value itself, or what it is waiting for."""
    return await value if isinstance(value, Awaitable) else value


_REFUSALS = (
    "context_length_exceeded",
    "context window",
    "maximum context length",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "input token count",
    "too many tokens",
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
