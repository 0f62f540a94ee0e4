"""Forms of a history that a format has to write by itself, and what a reader sees of them.

A message that was read has an origin, the objects that it was read from. A format returns these as
they are, so its writer runs only on messages without one.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from jaato_gc import Message, Part, message_from_dict, message_to_dict
from jaato_gc.plugin import as_text

SHORTER = "[shortened]"
"""The result of every call after `shorten`."""


def save(message: Message) -> Message:
    """Returns a message as a saved session has it: everything but its origin."""
    try:
        text = json.dumps(message_to_dict(message))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{message.message_id} can't be saved as JSON: {error}") from error
    return message_from_dict(json.loads(text))


def make(message: Message) -> Message:
    """Returns a message as one of another format: what it says, without origin and extra."""
    parts = tuple(replace(part, extra=None) for part in message.parts)
    return replace(message, parts=parts, extra=None, origin=None)


def shorten(message: Message) -> Message:
    """Returns a message as a collection leaves it: with shorter results, and with its origin."""
    parts = [
        replace(part, function_response=replace(part.function_response, result=SHORTER))
        if part.function_response
        else part
        for part in message.parts
    ]
    return message.with_parts(parts)


FORMS: dict[str, Callable[[Message], Message]] = {
    "saved": save,
    "made elsewhere": make,
    "shortened": shorten,
}


def view(messages: Iterable[Message], *, thoughts: bool) -> list[tuple[Any, ...]]:
    """Returns what a reader sees of messages, in order.

    Args:
        messages: The messages. A format may join some, so their bounds are left out.
        thoughts: Whether thoughts count. Those of other formats are not sent.
    """
    seen = [each for message in messages for part in message.parts for each in _seen(message, part)]
    return [each for each in seen if thoughts or each[0] != "thought"]


def _seen(message: Message, part: Part) -> Iterable[tuple[Any, ...]]:
    if part.thought:
        yield ("thought", part.thought)
    if part.text:
        yield (message.role.value, part.text)
    if data := part.inline_data:
        yield (message.role.value, data.mime_type)
    if call := part.function_call:
        yield ("call", call.id, call.name, call.args)
    if answer := part.function_response:
        kind = "error" if answer.is_error else "result"
        yield (kind, answer.call_id, answer.name, as_text(answer.result))
