"""The texts of a message: what it shows, and what its author wrote."""

import json
from collections.abc import Iterator
from typing import Any

from jaato_gc import Message


def shown_texts(message: Message) -> Iterator[str]:
    """Yields all texts of a message, including thoughts and tool results."""
    yield from written_texts(message)
    for part in message.parts:
        if part.thought:
            yield part.thought
        if part.function_response:
            yield from texts_in(_decoded(part.function_response.result))


def written_texts(message: Message) -> Iterator[str]:
    """Yields the text of a message and the arguments of its calls."""
    for part in message.parts:
        if part.text:
            yield part.text
        if part.function_call:
            yield from texts_in(part.function_call.args)


def texts_in(value: Any) -> Iterator[str]:
    """Yields the texts and numbers in a JSON-like value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _decoded(result: Any) -> Any:
    """Returns the value of a result that is JSON text, so that its lines are lines again."""
    if isinstance(result, str) and result[:1] in ("{", "[") and "\\n" in result:
        try:
            return json.loads(result)
        except (ValueError, RecursionError):
            return result
    return result
