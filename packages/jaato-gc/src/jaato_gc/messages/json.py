"""Messages as JSON data: lossless conversion, comparison, keys, and copies of foreign values.

A subclass of a built-in type can return something else at every access. So a value that other code
made is read once, into new objects of built-in types: what is checked is what is stored.
"""

import base64
import hashlib
import json
import operator
import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from jaato_gc.errors import MessageError
from jaato_gc.messages.types import (
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
    seal,
)
from jaato_gc.policies import GCPolicy
from jaato_gc.saved import Count, Flag, Saved


def message_to_dict(message: Message) -> dict[str, Any]:
    """Returns a message as JSON data; empty fields are left out."""
    return _without_empty(
        {
            "role": message.role.value,
            "parts": [_part_to_dict(part) for part in message.parts],
            "message_id": message.message_id,
            "synthetic": message.synthetic,
            "policy": message.policy,
            "extra": message.extra,
            "bonds": list(message.bonds) or None,
            "keeps_place": message.keeps_place or None,
        }
    )


class _SavedAttachment(Saved):
    mime_type: str
    data: str | None = None
    bytes: str | None = None
    uri: str | None = None
    width: Count | None = None
    height: Count | None = None

    def read_out(self) -> InlineData:
        data = self.data if self.bytes is None else base64.b64decode(self.bytes, validate=True)
        return InlineData(self.mime_type, data, self.uri, self.width, self.height)


class _SavedPart(Saved):
    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    inline_data: _SavedAttachment | None = None
    thought: str | None = None
    extra: dict[str, Any] | None = None

    def read_out(self) -> Part:
        attachment = self.inline_data and self.inline_data.read_out()
        return Part(**{**dict(self), "inline_data": attachment})


class SavedMessage(Saved):
    """The strict model of what `message_to_dict` returns."""

    role: Role
    parts: list[_SavedPart]
    message_id: str
    synthetic: SyntheticKind | None = None
    policy: GCPolicy | None = None
    extra: dict[str, Any] | None = None
    bonds: list[str] = Field(default_factory=list)
    keeps_place: Flag = False

    def read_out(self) -> Message:
        """Returns the message.

        Raises:
            ValueError: An attachment is not base64.
        """
        return Message(**{**dict(self), "parts": [part.read_out() for part in self.parts]})


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Returns the message that `message_to_dict` described.

    Raises:
        MessageError: A field is missing, unknown or has another type.
    """
    saved = SavedMessage.read(data, "the message", MessageError)
    try:
        return saved.read_out()
    except ValueError as error:
        raise MessageError(f"the message can't be read: {error}") from error


def _part_to_dict(part: Part) -> dict[str, Any]:
    call, answer, attachment = part.function_call, part.function_response, part.inline_data
    return _without_empty(
        {
            "text": part.text,
            "function_call": call and {"id": call.id, "name": call.name, "args": call.args},
            "function_response": answer
            and {
                "call_id": answer.call_id,
                "name": answer.name,
                "result": answer.result,
                "is_error": answer.is_error,
            },
            "inline_data": attachment and _attachment_to_dict(attachment),
            "thought": part.thought,
            "extra": part.extra,
        }
    )


def _attachment_to_dict(attachment: InlineData) -> dict[str, Any]:
    data = attachment.data
    return _without_empty(
        {
            "mime_type": attachment.mime_type,
            "data": data if isinstance(data, str) else None,
            "bytes": base64.b64encode(data).decode() if isinstance(data, bytes) else None,
            "uri": attachment.uri,
            "width": attachment.width,
            "height": attachment.height,
        }
    )


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def stash_key(message: Message) -> str:
    """Returns the key of a message in a stash, from its content and id: 16 characters."""
    text = json.dumps(message_to_dict(message), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# --- values that other code made ---


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


def plain_integer(value: object) -> int | None:
    """Returns an integer of any library as an `int`; ``None`` if it is something else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


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
