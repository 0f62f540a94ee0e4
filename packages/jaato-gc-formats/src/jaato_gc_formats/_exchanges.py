"""Splits messages and parts that core accepts as one, and that providers want apart."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from jaato_gc import Message, Part, Role
from jaato_gc_formats._wire import READ_AS, original_items

CONTENTS = ("thought", "text", "inline_data", "function_call", "function_response")
"""Fields of a part with content, in the order in which they are written."""


def split_exchanges(messages: Iterable[Message], format: str) -> Iterator[Message]:
    """Yields the messages, with calls and results in different ones, and one content per part.

    Messages that are written as their original objects are not changed.
    """
    for message in messages:
        if original_items(message, format) is not None:
            yield message
            continue
        parts = [piece for part in message.parts for piece in _single_contents(part)]
        if len(parts) > len(message.parts):
            message = message.with_parts(parts)
        if message.role is Role.MODEL and message.function_responses:
            yield from _split(message)
        else:
            yield message


def _single_contents(part: Part) -> list[Part]:
    names = [name for name in CONTENTS if getattr(part, name)]
    if len(names) < 2:
        return [part]
    pieces = [Part(**{name: getattr(part, name)}) for name in names]
    pieces[-1] = replace(pieces[-1], extra=part.extra)
    return pieces


def _split(message: Message) -> Iterator[Message]:
    """Yields a model message with results in pieces: its calls, then their results, and so on."""
    said: list[Part] = []
    results: list[Part] = []
    waiting = number = 0
    for part in [*message.parts, None]:
        if part is not None and part.function_response:
            results.append(part)
            waiting -= 1
            continue
        if results and (part is None or not waiting):
            yield _piece(message, Role.MODEL, said, number)
            yield _piece(message, Role.TOOL, results, number + 1)
            said, results, number = [], [], number + 2
        if part is not None:
            said.append(part)
            waiting += part.function_call is not None
    if said:
        yield _piece(message, Role.MODEL, said, number)


def _piece(message: Message, role: Role, parts: list[Part], number: int) -> Message:
    extra = message.extra
    if role is Role.TOOL and extra is not None:
        extra = {READ_AS: extra[READ_AS]} if READ_AS in extra else None  # the rest is the model's
    new_id = f"{message.message_id}-{number}" if number else message.message_id
    return replace(message, role=role, parts=tuple(parts), message_id=new_id, extra=extra)
