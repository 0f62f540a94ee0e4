"""llama-index: `Memory`, with the store that it has by default: SQLite in memory."""

from collections.abc import Sequence
from typing import Any

import tiktoken
from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory

from contenders.shared import ENCODING, complete, count_tokens

STORED_AT_ONCE = 1_000
"""Rows in one statement: SQLite limits the number of values."""


class Flushes(BaseMemoryBlock[str]):  # type: ignore[misc]
    """A memory block that only counts how often the queue was flushed."""

    name: str = "flushes"
    seen: int = 0

    async def _aget(self, *_: Any, **__: Any) -> str:
        return ""

    async def _aput(self, _: list[ChatMessage]) -> None:
        self.seen += 1


class LlamaIndex:
    """A queue of messages in a database; the system prompt is not in it."""

    name = "llama-index Memory"
    distributions: Sequence[str] = ("llama-index-core",)
    statement = "from llama_index.core.memory import Memory"
    counts: Counts = "tokens"
    names_removed = True
    remark = "does not count tool calls; keeps everything in SQLite"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Adds the last message, and one flush reduces the queue to the target.

        That is the same share of the history, in tokens as the library counts them. It keeps no
        counts: there is only one case.
        """
        if warm:
            return None
        messages = self.bare(history)
        full = sum(map(_counted, messages))
        own_target = int(full * target / sum(plain.tokens for plain in history))
        memory, flushes = _memory(own_target, 1.0, full - own_target)
        _store(memory, messages[:-1])

        def run() -> tuple[Memory, Flushes]:
            complete(memory.aput(messages[-1]))
            return memory, flushes

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Adds whole turns, so that there is one check per turn."""

        async def run() -> tuple[Memory, Flushes]:
            memory, flushes = _memory(WINDOW, TRIGGER, int((TRIGGER - TARGET) * WINDOW))
            for turn in turns:
                await memory.aput_messages([_message(plain) for plain in turn])
            return memory, flushes

        return lambda: complete(run())

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        memory, flushes = returned
        return Outcome([message.content for message in complete(memory.aget())], flushes.seen)

    def hold(self, history: Sequence[Plain]) -> None:
        """Returns nothing: the memory of SQLite is not Python's."""

    def bare(self, history: Sequence[Plain]) -> list[ChatMessage]:
        """Returns the messages alone."""
        return [_message(plain) for plain in history if plain.role != "system"]


def _tokenizer() -> Any:
    return tiktoken.get_encoding(ENCODING).encode_ordinary


def _memory(limit: int, ratio: float, flush: int) -> tuple[Memory, Flushes]:
    flushes = Flushes()
    memory = Memory.from_defaults(
        token_limit=limit,
        chat_history_token_ratio=ratio,
        token_flush_size=flush,
        tokenizer_fn=_tokenizer(),
        memory_blocks=[flushes],
    )
    return memory, flushes


def _store(memory: Memory, messages: Sequence[ChatMessage]) -> None:
    for start in range(0, len(messages), STORED_AT_ONCE):
        some = list(messages[start : start + STORED_AT_ONCE])
        complete(memory.sql_store.add_messages(memory.session_id, some))


def _counted(message: ChatMessage) -> int:
    kwargs = message.additional_kwargs
    return count_tokens(message.content or "") + (count_tokens(str(kwargs)) if kwargs else 0)


def _message(plain: Plain) -> ChatMessage:
    if plain.role == "tool":
        return ChatMessage(
            role="tool", content=plain.text, additional_kwargs={"tool_call_id": plain.call_id}
        )
    if plain.call is not None:
        call = ToolCallBlock(
            tool_call_id=plain.call_id, tool_name=plain.call, tool_kwargs=plain.arguments or {}
        )
        return ChatMessage(role="assistant", blocks=[TextBlock(text=plain.text), call])
    return ChatMessage(role=plain.role, content=plain.text)


def make() -> Contender:
    """Returns the contender."""
    return LlamaIndex()
