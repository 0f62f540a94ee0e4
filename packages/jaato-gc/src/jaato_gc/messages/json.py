"""Messages as JSON data: lossless conversion, comparison, keys, and copies of foreign values.

A subclass of a built-in type can return something else at every access. So a value that other code
made is read once, into new objects of built-in types: what is checked is what is stored.
"""

import base64
import hashlib
import json
import reprlib
from collections.abc import Mapping
from typing import Any

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


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Returns the message that `message_to_dict` described."""
    message_id, extra = data["message_id"], data.get("extra")
    if not isinstance(message_id, str):
        raise TypeError(f"expected a message id that is text, got {message_id!r:.80}")
    if not isinstance(extra, dict | None):
        raise TypeError(f"expected the fields of a provider in extra, got {extra!r:.80}")
    bonds, keeps_place = data.get("bonds", []), data.get("keeps_place", False)
    if not (isinstance(bonds, list) and all(isinstance(bond, str) for bond in bonds)):
        raise TypeError(f"expected a list of ids in bonds, got {bonds!r:.80}")
    if not isinstance(keeps_place, bool):
        raise TypeError(f"expected true or false in keeps_place, got {keeps_place!r:.80}")
    return Message(
        Role(data["role"]),
        [_part_from_dict(part) for part in data["parts"]],
        message_id,
        SyntheticKind(data["synthetic"]) if "synthetic" in data else None,
        GCPolicy(data["policy"]) if "policy" in data else None,
        extra,
        bonds=bonds,
        keeps_place=keeps_place,
    )


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


def _part_from_dict(data: Mapping[str, Any]) -> Part:
    call, answer = data.get("function_call"), data.get("function_response")
    attachment = data.get("inline_data")
    for text in (data.get("text"), data.get("thought")):
        if not isinstance(text, str | None):
            raise TypeError(f"expected text, got {text!r:.80}")
    for named in filter(None, (call, answer)):
        if not isinstance(named["name"], str):
            raise TypeError(f"expected the name of a tool, got {named['name']!r:.80}")
        if isinstance(named.get("id", named.get("call_id")), dict | list):
            raise TypeError(f"expected a call id that is text or null in {named!r:.80}")
    return Part(
        data.get("text"),
        FunctionCall(**call) if call else None,
        ToolResult(**answer) if answer else None,
        _attachment_from_dict(attachment) if attachment else None,
        data.get("thought"),
        data.get("extra"),
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


def _attachment_from_dict(data: Mapping[str, Any]) -> InlineData:
    fields = dict(data)
    if "bytes" in fields:
        fields["data"] = base64.b64decode(fields.pop("bytes"))
    return InlineData(**fields)


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
