"""What fills a context: every source, with calls and results divided by tool."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jaato_gc import Message
from jaato_gc.plugin import TokenCounter
from jaato_gc_lab._sources import tokens_by_source
from jaato_gc_lab._subjects import UNNAMED, part_tokens, tool_of

HIDDEN = "not in the log"


class SliceKind(StrEnum):
    """What a slice of a context consists of."""

    SOURCE = "source"
    """Everything of one source, such as user messages."""
    TOOL = "tool"
    """The calls and results of one tool."""
    HIDDEN = "hidden"
    """System prompt, tools and other content that the log does not show."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a context.

    Args:
        name: Name of the source or the tool.
        kind: What it consists of.
        tokens: Its tokens.
        calls: Number of calls, for a tool.
    """

    name: str
    kind: SliceKind
    tokens: int
    calls: int = 0


def slices_of(
    messages: Sequence[Message], schema_tokens: int, hidden_tokens: int, counter: TokenCounter
) -> list[Slice]:
    """Returns the slices of a context, largest first. Together they have all of its tokens.

    Args:
        messages: The messages.
        schema_tokens: Tokens of the tool schemas.
        hidden_tokens: Tokens that the log does not show.
        counter: Token counter.
    """
    tokens = Counter({(SliceKind.SOURCE, "tools"): schema_tokens})
    tokens[SliceKind.HIDDEN, HIDDEN] = hidden_tokens
    calls: Counter[tuple[SliceKind, str]] = Counter()
    for message in messages:
        for key, amount in _tokens_in(message, counter):
            tokens[key] += amount
        calls.update((SliceKind.TOOL, call.name or UNNAMED) for call in message.function_calls)
    found = [
        Slice(name, kind, amount, calls[kind, name])
        for (kind, name), amount in tokens.items()
        if amount
    ]
    return sorted(found, key=lambda each: (-each.tokens, each.name))


def _tokens_in(
    message: Message, counter: TokenCounter
) -> Iterator[tuple[tuple[SliceKind, str], int]]:
    by_source = tokens_by_source(message, counter)
    for source, parts in (
        ("calls", [part for part in message.parts if part.function_call]),
        ("results", [part for part in message.parts if part.function_response]),
    ):
        if parts and source in by_source:
            others = [
                ((SliceKind.TOOL, tool_of(part)), part_tokens(part, counter)) for part in parts[1:]
            ]
            yield from others
            # The first one has the overhead of the message.
            rest = by_source.pop(source) - sum(amount for _, amount in others)
            yield (SliceKind.TOOL, tool_of(parts[0])), rest
    for source, amount in by_source.items():
        yield (SliceKind.SOURCE, source), amount
