"""Counting in the unit of jaato-server's figures, which depends on the provider."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jaato_gc import Confidence, Message, Part
from jaato_gc.plugin import FrameCosts, as_text
from jaato_gc_jaato._messages import SUFFIX

CHARACTERS_PER_TOKEN = 4.0
"""How jaato-server counts if the provider has no tokenizer."""


class HostCounter:
    """Counts text by its length.

    Args:
        characters_per_token: The size of a token.
        counts_suffixes: Whether it counts what is appended to results for the model.
    """

    confidence = Confidence.ESTIMATED
    tolerance = 0.0

    def __init__(self, characters_per_token: float, *, counts_suffixes: bool) -> None:
        self.characters_per_token = characters_per_token
        self.name = f"jaato-server-{characters_per_token:.4f}"
        self.costs = FrameCosts(message=0, call=0)
        if counts_suffixes:
            self.costs = replace(self.costs, sealed=self._suffix_tokens)

    def count_text(self, text: str) -> int:
        """Returns the tokens of a text."""
        return int(len(text) / self.characters_per_token)

    def _suffix_tokens(self, part: Part) -> int:
        return self.count_text((part.extra or {}).get(SUFFIX, ""))


def counter_for(
    figures: Iterable[tuple[int, Sequence[Message]]], *, counts_suffixes: bool
) -> HostCounter:
    """Returns a counter that agrees with figures of jaato-server, as far as they are about text.

    Args:
        figures: Tokens, and the messages that have them.
        counts_suffixes: Whether they include what is appended to results for the model.
    """
    characters = total = 0
    for tokens, messages in figures:
        texts = list(_texts(messages))
        if texts and None not in texts:
            characters += sum(len(text or "") for text in texts)
            total += tokens
    size = characters / total if characters and total else CHARACTERS_PER_TOKEN
    return HostCounter(size, counts_suffixes=counts_suffixes)


def _texts(messages: Iterable[Message]) -> Iterator[str | None]:
    """Yields texts and results; ``None`` for anything that not every version counts."""
    for message in messages:
        for part in message.parts:
            if part.function_call or part.inline_data or part.thought or part.extra:
                yield None
            elif answer := part.function_response:
                yield as_text(answer.result)
            else:
                yield part.text
