"""Lossless conversion of messages to JSON data and back."""

import base64
from collections.abc import Mapping
from typing import Any

from jaato_gc.messages.types import (
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    SyntheticKind,
    ToolResult,
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
        }
    )


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Returns the message that `message_to_dict` described."""
    if not isinstance(data["message_id"], str):
        raise TypeError(f"expected a message id, got {data['message_id']!r:.80}")
    return Message(
        Role(data["role"]),
        [_part_from_dict(part) for part in data["parts"]],
        data["message_id"],
        SyntheticKind(data["synthetic"]) if "synthetic" in data else None,
        GCPolicy(data["policy"]) if "policy" in data else None,
        data.get("extra"),
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
