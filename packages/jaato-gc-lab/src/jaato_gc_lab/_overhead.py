"""Estimates the tokens of every request that a log does not show: system prompt and tools."""

from collections.abc import Sequence
from itertools import accumulate
from statistics import median
from typing import Literal

from jaato_gc import Message
from jaato_gc.plugin import TokenCounter, message_tokens
from jaato_gc_formats import Conversation

Overhead = Literal["auto", "none"] | int
"""How many tokens to add to every request: estimated from the log, none, or this many."""

FIRST = 3
"""Number of requests that the estimate is based on."""


def hidden_tokens(
    conversation: Conversation | Sequence[Message], shown_tokens: int, counter: TokenCounter
) -> list[int]:
    """Returns, for each reported usage, the tokens that the log does not show.

    Args:
        conversation: The conversation. A list of messages has no reported usage.
        shown_tokens: Tokens of the tool schemas that the log does show.
        counter: Token counter.
    """
    if not isinstance(conversation, Conversation):
        return []
    sizes = [message_tokens(message, counter) for message in conversation.messages]
    before = list(accumulate(sizes, initial=0))
    starts = [0, *conversation.compactions]  # a compaction replaces everything before it
    found = []
    for usage in conversation.usage:
        start = max(each for each in starts if each <= usage.position)
        counted = before[usage.position] - before[start] + shown_tokens
        found.append(usage.input_tokens - counted)
    return found


def estimated_overhead(
    conversation: Conversation | Sequence[Message], shown_tokens: int, counter: TokenCounter
) -> int:
    """Returns the tokens of every request that a log does not show; 0 if it reports no usage.

    It is the median of the differences between reported and counted tokens in the first three
    requests. In later requests the error of the counter, which grows with the context, would be
    part of the difference.
    """
    first = hidden_tokens(conversation, shown_tokens, counter)[:FIRST]
    return max(0, int(median(first))) if first else 0
