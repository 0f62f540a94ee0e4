"""Counting tokens: one counter for everything, with a memo on each message."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from jaato_gc.errors import GCError
from jaato_gc.messages import Message, Part, plain_integer
from jaato_gc.tokens.estimate import ESTIMATE_TOLERANCE, estimate_tokens
from jaato_gc.tokens.images import image_tokens
from jaato_gc.tokens.rendering import as_text


def _attachment_tokens(part: Part) -> int:
    return image_tokens(part.inline_data) if part.inline_data else 0


def _nothing(part: Part) -> int:  # noqa: ARG001
    return 0


@dataclass(frozen=True, slots=True)
class FrameCosts:
    """The tokens that a provider's format adds to the texts in it.

    Args:
        message: Tokens of the frame of one message: role, delimiters.
        call: Tokens of the frame of one tool call or result: id, type, braces.
        attachment: Returns the tokens of a part that is an image or another attachment.
        sealed: Returns the tokens of content that only the provider can read, such as an encrypted
            thought. Called for thoughts and for parts with provider fields in ``extra``. If the
            thought is readable too, the larger figure counts.
        rates: Factors for the tokens of single messages, by message id, if a host has figures of
            its own.
    """

    message: int = 4
    call: int = 8
    attachment: Callable[[Part], int] = _attachment_tokens
    sealed: Callable[[Part], int] = _nothing
    rates: Mapping[str, float] = field(default_factory=dict)


DEFAULT_COSTS = FrameCosts()


class Confidence(StrEnum):
    """How reliable a token figure is."""

    EXACT = "exact"
    """Counted with the model's own tokenizer."""
    CALIBRATED = "calibrated"
    """Counted, then corrected by the usage that the provider reported."""
    ESTIMATED = "estimated"
    """Estimated, within the counter's stated tolerance."""
    DOUBTED = "doubted"
    """Counted: the provider's last report was less than half of that, or more than the window, and
    was not believed."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text. Core does the rest of the counting."""

    @property
    def name(self) -> str:
        """Identifies the way of counting: counters of the same name must agree."""
        ...

    @property
    def confidence(self) -> Confidence:
        """How reliable the figures are."""
        ...

    @property
    def tolerance(self) -> float:
        """The expected relative error of a total; 0 if the counter is exact."""
        ...

    def count_text(self, text: str) -> int:
        """Returns the tokens of a text: an integer of 0 or more.

        A counter may also have an attribute ``costs``: the `FrameCosts` of a provider's format.
        """
        ...


class EstimateCounter:
    """Estimates tokens from the script and shape of the text. Works everywhere, offline."""

    name = "estimate"
    confidence = Confidence.ESTIMATED
    tolerance = ESTIMATE_TOLERANCE

    def count_text(self, text: str) -> int:
        """Returns the estimated tokens of a text."""
        return estimate_tokens(text)


DEFAULT_COUNTER: TokenCounter = EstimateCounter()
"""The counter if none was chosen: the same on every machine."""


def text_tokens(text: str, counter: TokenCounter) -> int:
    """Returns the tokens of a text.

    Raises:
        GCError: The counter returned something else than an integer of 0 or more.
    """
    tokens = counter.count_text(text)
    # A counter of somebody else may return anything, such as the float of `len(text) / 4`.
    return tokens if type(tokens) is int and tokens >= 0 else _checked(tokens, "a text", counter)


def _checked(tokens: object, what: str, counter: TokenCounter) -> int:
    """Returns the answer of a counter as an integer, also if it is one of another library."""
    found = plain_integer(tokens)
    if found is None or found < 0:
        raise GCError(
            f"token counter {counter.name!r} returned {tokens!r:.80} for {what}: expected an "
            "integer of 0 or more; correct the counter"
        )
    return found


def count_tokens(messages: Iterable[Message], counter: TokenCounter = DEFAULT_COUNTER) -> int:
    """Returns the tokens of some messages. Each message is tokenised once."""
    name = counter.name
    total = 0
    for message in messages:
        counted_by, tokens = message._counted
        total += tokens if counted_by == name else message_tokens(message, counter)
    return total


def message_tokens(message: Message, counter: TokenCounter = DEFAULT_COUNTER) -> int:
    """Returns the tokens of one message, its frame included. The message keeps the figure."""
    counted_by, tokens = message._counted
    if counted_by != counter.name:
        costs: FrameCosts = getattr(counter, "costs", DEFAULT_COSTS)
        tokens = costs.message
        for part in message.parts:
            tokens += part_tokens(part, counter, costs)
        if costs.rates:
            tokens = round(tokens * costs.rates.get(message.message_id, 1))
        if type(tokens) is not int or tokens < 0:  # the costs of a format may return anything too
            tokens = _checked(tokens, "the parts of a message", counter)
        _remember(message, tokens, counter.name)
    return tokens


def recount(message: Message, before: Message, counter: TokenCounter) -> int:
    """Returns the tokens of a message that was made from another one.

    Only the parts that differ are tokenised: a message may carry hundreds of results that are
    shortened one by one.
    """
    differing = [
        parts
        for parts in zip(message.parts, before.parts, strict=False)
        if parts[0] is not parts[1]
    ]
    if len(message.parts) == len(before.parts) > 2 * len(differing):
        costs: FrameCosts = getattr(counter, "costs", DEFAULT_COSTS)
        more = 0
        for new, old in differing:
            more += part_tokens(new, counter, costs) - part_tokens(old, counter, costs)
        if costs.rates:
            more = round(more * costs.rates.get(message.message_id, 1))
        _remember(message, message_tokens(before, counter) + more, counter.name)
    return message_tokens(message, counter)


def _remember(message: Message, tokens: int, counter_name: str) -> None:
    object.__setattr__(message, "_counted", (counter_name, tokens))


def part_tokens(part: Part, counter: TokenCounter, costs: FrameCosts) -> int:
    """Returns the tokens of one part."""
    tokens = 0
    if part.text:
        tokens += text_tokens(part.text, counter)
    if part.thought or part.extra:
        thought = text_tokens(part.thought, counter) if part.thought else 0
        tokens += max(thought, costs.sealed(part))
    if call := part.function_call:
        tokens += costs.call + text_tokens(call.name + as_text(call.args), counter)
    if answer := part.function_response:
        tokens += costs.call + text_tokens(answer.name + as_text(answer.result), counter)
    if part.inline_data:
        tokens += costs.attachment(part)
    return tokens
