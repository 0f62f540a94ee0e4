"""llama-index: `Memory`, with the store that it has by default: SQLite in memory."""

import json
from collections.abc import Sequence
from typing import Any

import tiktoken
from contender import TARGET, TRIGGER, WINDOW, Contender, Outcome, Run
from histories import Plain
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from contenders.shared import ENCODING, complete, count_tokens

STORED_AT_ONCE = 1_000
"""Rows in one statement: SQLite takes only so many values."""


class Flushes(BaseMemoryBlock[str]):  # type: ignore[misc]
    """A memory block that only counts how often the queue was flushed."""

    name: str = "flushes"
    seen: int = 0

    async def _aget(self, *_: Any, **__: Any) -> str:
        return ""

    async def _aput(self, _: list[ChatMessage]) -> None:
        self.seen += 1


class LlamaIndex:
    """A queue of messages in a database; a system prompt is the agent's, and not in it."""

    name = "llama-index Memory"
    distributions: Sequence[str] = ("llama-index-core",)
    module = "llama_index.core.memory"
    does_less = "does not count tool calls; also keeps what it flushes, in its database"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """The last message is put in, and one flush brings the queue to the target.

        That is the same share of the history, in tokens as the library counts them. Counts are
        not remembered, so that cold and warm are the same.
        """
        if warm:
            return None
        messages = _messages(history)
        full = sum(map(_counted, messages))
        own_target = int(full * target / sum(plain.tokens for plain in history))
        memory, flushes = _memory(own_target, 1.0, full - own_target)
        _store(memory, messages[:-1])

        def run() -> tuple[Memory, Flushes]:
            complete(memory.aput(messages[-1]))
            return memory, flushes

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run | None:
        """A turn is put in as a whole, so that there is one check a turn."""

        async def run() -> tuple[Memory, Flushes]:
            memory, flushes = _memory(WINDOW, TRIGGER, int((TRIGGER - TARGET) * WINDOW))
            for turn in turns:
                await memory.aput_messages([_message(plain) for plain in turn])
            return memory, flushes

        return lambda: complete(run())

    def outcome(self, returned: Any) -> Outcome:
        """The texts that are left."""
        memory, flushes = returned
        return Outcome([message.content for message in complete(memory.aget())], flushes.seen)

    def save(self, history: Sequence[Plain]) -> Run | None:
        """The store's own dump, as JSON."""
        store = _filled(history).sql_store
        return lambda: json.dumps(store.dump_store())

    def restore(self, history: Sequence[Plain]) -> Run | None:
        """A store from that dump; it is filled when it is first asked."""
        memory = _filled(history)
        session_id, saved = memory.session_id, json.dumps(memory.sql_store.dump_store())

        def run() -> Memory:
            store = SQLAlchemyChatStore(**json.loads(saved))
            memory = Memory.from_defaults(
                session_id=session_id, chat_store=store, tokenizer_fn=_tokenizer()
            )
            complete(store.count_messages(session_id))
            return memory

        return run

    def hold(self, history: Sequence[Plain]) -> None:
        """Nothing to be seen: SQLite's memory is not Python's."""


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


def _filled(history: Sequence[Plain]) -> Memory:
    memory, _ = _memory(WINDOW, TRIGGER, WINDOW)
    _store(memory, _messages(history))
    return memory


def _store(memory: Memory, messages: Sequence[ChatMessage]) -> None:
    for start in range(0, len(messages), STORED_AT_ONCE):
        some = list(messages[start : start + STORED_AT_ONCE])
        complete(memory.sql_store.add_messages(memory.session_id, some))


def _counted(message: ChatMessage) -> int:
    kwargs = message.additional_kwargs
    return count_tokens(message.content or "") + (count_tokens(str(kwargs)) if kwargs else 0)


def _messages(history: Sequence[Plain]) -> list[ChatMessage]:
    return [_message(plain) for plain in history if plain.role != "system"]


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
    """The contender."""
    return LlamaIndex()
