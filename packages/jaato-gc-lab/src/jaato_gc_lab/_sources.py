"""Tokens of a context by source."""

from collections import Counter

from jaato_gc import Message, Part, Role
from jaato_gc.plugin import TokenCounter, message_tokens
from jaato_gc_lab._subjects import part_tokens, tool_of

SOURCES = ("system", "tools", "user", "model", "thoughts", "calls", "results", "synthetic")
"""All sources, in display order."""


class Sources:
    """Tracks the tokens of a context by source as messages are added and removed.

    Args:
        counter: Token counter.
        tools_tokens: Tokens of the tool schemas, which are sent with every request.
    """

    def __init__(self, counter: TokenCounter, tools_tokens: int) -> None:
        self._counter = counter
        self._totals = Counter({"tools": tools_tokens})
        self._by_message: dict[str, dict[str, int]] = {}

    def add(self, message: Message) -> None:
        """Adds a message."""
        tokens = tokens_by_source(message, self._counter)
        self._by_message[message.message_id] = tokens
        self._totals.update(tokens)

    def remove(self, message: Message) -> None:
        """Removes a message."""
        self._totals.subtract(self._by_message.pop(message.message_id))

    def now(self) -> dict[str, int]:
        """Returns the current tokens by source, without empty sources."""
        return {source: self._totals[source] for source in SOURCES if self._totals[source]}


def tokens_by_source(message: Message, counter: TokenCounter) -> dict[str, int]:
    """Returns the tokens of a message by source; its overhead counts for the message's source."""
    total = message_tokens(message, counter)
    own = _message_source(message)
    by_source: dict[str, list[Part]] = {}
    for part in message.parts:
        by_source.setdefault(_part_source(part, own), []).append(part)
    if not by_source.keys() - {own}:
        return {own: total}
    overhead = message_tokens(Message(message.role, [], message_id="-"), counter)
    tokens = {
        source: message_tokens(Message(message.role, parts, message_id="-"), counter) - overhead
        for source, parts in by_source.items()
        if source != own
    }
    return {own: total - sum(tokens.values()), **tokens}


def tokens_by_tool(message: Message, counter: TokenCounter) -> Counter[str]:
    """Returns the tokens of the calls and results in a message, by tool."""
    tokens: Counter[str] = Counter()
    for part in message.parts:
        if part.function_call or part.function_response:
            tokens[tool_of(part)] += part_tokens(part, counter)
    return tokens


def _message_source(message: Message) -> str:
    if message.synthetic:
        return "synthetic"
    if message.role is Role.SYSTEM:
        return "system"
    if message.is_tool_output:
        return "results"
    return "model" if message.role is Role.MODEL else "user"


def _part_source(part: Part, own: str) -> str:
    if own in ("synthetic", "system"):
        return own
    if part.function_call:
        return "calls"
    if part.thought is not None:
        return "thoughts"
    return own
