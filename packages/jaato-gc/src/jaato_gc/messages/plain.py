"""Copies values that other code made into new objects of built-in types.

A subclass of a built-in type can return something else at every access. A value is read once, so
that what is checked is what is stored.
"""

import json
import reprlib
from typing import Any

from jaato_gc.errors import MessageError
from jaato_gc.messages.json import message_from_dict, message_to_dict
from jaato_gc.messages.types import Message, seal


def plain_json(value: object) -> Any:
    """Returns a copy of a JSON value. A subclass of a built-in type becomes that type.

    Raises:
        ValueError: JSON can't represent the value, or its text is not valid Unicode.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return json.loads(text.encode())
    except Exception as error:  # methods of an unknown class can raise anything
        raise ValueError(
            f"expected a value that JSON can represent, got {_shown(value)}"
        ) from error


def plain_text(value: object) -> str:
    """Returns a copy of a text.

    Raises:
        ValueError: It is not a text, or not valid Unicode.
    """
    text = plain_id(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"expected valid Unicode, got {_shown(text)}") from error
    return text


def plain_id(value: object) -> str:
    """Returns a copy of an id or a key. Hosts choose ids, so they may be invalid Unicode.

    Raises:
        ValueError: It is not a text.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {_shown(value)}")
    return str.__str__(value)


def plain_message(message: object) -> Message:
    """Returns a read-only copy of a message that shares nothing with it.

    Its text may be invalid Unicode, because the output of tools sometimes is.

    Raises:
        MessageError: It is not a message, or JSON can't represent it.
    """
    if not isinstance(message, Message):
        raise MessageError(f"expected a Message, got {_shown(message)}")
    try:
        text = json.dumps(message_to_dict(message), allow_nan=False)
        copy = message_from_dict(json.loads(text))
    except Exception as error:
        name = _shown(message.message_id)
        raise MessageError(f"message {name} has a value that JSON can't represent") from error
    seal(copy)
    return copy


def serialised(message: Message) -> str:
    """Returns a message as text, to compare it with others: ``__eq__`` may be overridden.

    Values that JSON can't represent are equal only to themselves.
    """
    try:
        return json.dumps(message_to_dict(message), sort_keys=True, default=_identity)
    except (TypeError, ValueError, RecursionError):  # odd keys, huge numbers, cycles
        return _identity(message)


def _shown(value: object) -> str:
    """Returns the start of a value's text, for errors."""
    try:
        return reprlib.repr(value)
    except Exception:  # of an unknown class
        return f"an object of {type(value)}"


def _identity(value: object) -> str:
    return f"{type(value)} at {id(value)}"
