"""Tokens: counters, estimates, image costs, and messages as text."""

from jaato_gc.tokens.counting import (
    DEFAULT_COUNTER,
    Confidence,
    EstimateCounter,
    FrameCosts,
    TokenCounter,
    count_tokens,
    message_tokens,
    recount,
)
from jaato_gc.tokens.estimate import ESTIMATE_TOLERANCE, estimate_tokens
from jaato_gc.tokens.exact import TiktokenCounter, choose_counter
from jaato_gc.tokens.images import image_size, image_tokens
from jaato_gc.tokens.rendering import SEPARATOR, as_text, render, render_message, split_text

__all__ = [
    "DEFAULT_COUNTER",
    "ESTIMATE_TOLERANCE",
    "SEPARATOR",
    "Confidence",
    "EstimateCounter",
    "FrameCosts",
    "TiktokenCounter",
    "TokenCounter",
    "as_text",
    "choose_counter",
    "count_tokens",
    "estimate_tokens",
    "image_size",
    "image_tokens",
    "message_tokens",
    "recount",
    "render",
    "render_message",
    "split_text",
]
