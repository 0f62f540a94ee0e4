"""Finds, counts and sets cache marks, which say where a provider's prompt cache ends."""

from dataclasses import replace
from typing import Any

from jaato_gc import Message
from jaato_gc_formats._wire import HOLDERS, OPAQUE, READ_AS, Fields, plain


def find_mark(value: Any, field: str) -> Any:
    """Returns the last mark in blocks or in the ``extra`` of a part; ``None`` if there is none."""
    if isinstance(value, list | tuple):
        return next((mark for each in reversed(value) if (mark := find_mark(each, field))), None)
    if not isinstance(value, dict):
        return None
    return value.get(field) or next(
        (mark for key in (*HOLDERS, OPAQUE) if (mark := find_mark(value.get(key), field))), None
    )


def count_marks(value: Any, field: str) -> int:
    """Returns the number of marks in items, blocks or tools."""
    value = plain(value)
    if isinstance(value, list | tuple):
        return sum(count_marks(each, field) for each in value)
    if not isinstance(value, dict):
        return 0
    return bool(value.get(field)) + sum(count_marks(value.get(key), field) for key in HOLDERS)


def with_part_extra(message: Message, index: int, format: str, fields: Fields) -> Message | None:
    """Returns a message with fields added to a part; ``None`` if it is of another format.

    What a message that was never read says in ``extra``, such as a ledger, is not for the provider.
    """
    extra = message.extra or {}
    if READ_AS not in extra and any(part.extra for part in message.parts):
        return None
    if extra.get(READ_AS, format) != format:
        return None
    part = message.parts[index]
    part = replace(part, extra={**(part.extra or {}), **fields})
    parts = (*message.parts[:index], part, *message.parts[index + 1 :])
    return replace(message, parts=parts, extra=extra if READ_AS in extra else {READ_AS: format})
