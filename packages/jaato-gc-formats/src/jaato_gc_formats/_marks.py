"""Cache marks: where a provider's prompt cache ends. They are no part of what is said."""

from typing import Any

MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Fields of Anthropic's blocks and tools, and of OpenAI's content blocks."""
_INSIDE = ("content", "output", "source")
"""Fields whose value may have blocks. No others: the arguments of a call may have such names."""


def unmarked(value: Any) -> Any:
    """Returns plain items, blocks or tools without their cache marks."""
    if isinstance(value, list | tuple):
        return [unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: unmarked(each) if key in _INSIDE else each
        for key, each in value.items()
        if key not in MARKS
    }
