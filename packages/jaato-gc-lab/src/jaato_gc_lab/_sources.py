"""What a context is made of: tokens by who said them and what they are."""

from collections import Counter

from jaato_gc import Message, Part, Role, TokenCounter, message_tokens

SOURCES = ("system", "tools", "user", "model", "thoughts", "calls", "results", "synthetic")
"""The kinds, in the order in which to show them."""


class Sources:
    """Tokens of a context by kind, kept up to date as messages come and go.

    Args:
        counter: What counts them.
        tools_tokens: Tokens of the tools' schemas, which are sent with every request.
    """

    def __init__(self, counter: TokenCounter, tools_tokens: int) -> None:
        self._counter = counter
        self._totals = Counter({"tools": tools_tokens})
        self._of_message: dict[str, dict[str, int]] = {}

    def add(self, message: Message) -> None:
        """A message has come."""
        tokens = tokens_by_source(message, self._counter)
        self._of_message[message.message_id] = tokens
        self._totals.update(tokens)

    def remove(self, message: Message) -> None:
        """A message has gone."""
        self._totals.subtract(self._of_message.pop(message.message_id))

    def now(self) -> dict[str, int]:
        """The tokens of each kind that there is."""
        return {source: self._totals[source] for source in SOURCES if self._totals[source]}


def tokens_by_source(message: Message, counter: TokenCounter) -> dict[str, int]:
    """The tokens of a message by kind. Its frame belongs to whoever speaks."""
    total = message_tokens(message, counter)
    own = _source_of(message)
    kinds: dict[str, list[Part]] = {}
    for part in message.parts:
        kinds.setdefault(_kind_of(part, own), []).append(part)
    if not kinds.keys() - {own}:
        return {own: total}
    frame = message_tokens(Message(message.role, [], message_id="-"), counter)
    tokens = {
        kind: message_tokens(Message(message.role, parts, message_id="-"), counter) - frame
        for kind, parts in kinds.items()
        if kind != own
    }
    return {own: total - sum(tokens.values()), **tokens}


def _source_of(message: Message) -> str:
    if message.synthetic:
        return "synthetic"
    if message.role is Role.SYSTEM:
        return "system"
    if message.is_tool_output:
        return "results"
    return "model" if message.role is Role.MODEL else "user"


def _kind_of(part: Part, own: str) -> str:
    if own in ("synthetic", "system"):
        return own
    if part.function_call:
        return "calls"
    if part.thought is not None:
        return "thoughts"
    return own
