"""Encodes messages for storage: a frame per message, and contents that messages share.

When a tool returns the same output twice, the two messages differ in their ids and call ids. Ids
are part of the frame; the output is a content, which is stored once.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc import Message, StashError, message_from_dict, message_to_dict

# The fields of a part that are content. All other fields, including future ones, stay in the frame.
_CONTENT_FIELDS = ("text", "thought")
_NESTED_CONTENT_FIELDS = {
    "function_call": ("name", "args"),
    "function_response": ("name", "result", "is_error"),
    "inline_data": ("mime_type", "data", "bytes", "uri", "width", "height"),
}

_SEARCHABLE_FIELDS = {"name", "args", "result", "mime_type", "uri"}

_MAX_ABOUT_LENGTH = 200
"""Longest description of a message, in characters."""


@dataclass(frozen=True)
class Content:
    """The payload of one part. Equal contents are stored once."""

    body: bytes
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.body, digest_size=32).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def text(self) -> str:
        return searchable_text(self.body)


@dataclass(frozen=True)
class StoredMessage:
    """A message as it is stored.

    Args:
        frame: The message without its contents, as JSON.
        contents: One content per part.
        about: A short description of the message, for search results.
    """

    frame: bytes
    contents: Sequence[Content]
    about: str


def encode(message: Message) -> StoredMessage:
    """Converts a message to its stored form.

    Raises:
        StashError: The message can't be converted to JSON.
    """
    frame = message_to_dict(message)
    contents = []
    frames = []
    try:
        for part in frame["parts"]:
            part_frame, payload = _split(part)
            frames.append(part_frame)
            contents.append(Content(_dump(payload)))
        return StoredMessage(_dump(frame | {"parts": frames}), contents, _about(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise not_json(message, error) from error


def not_json(message: Message, error: Exception) -> StashError:
    """Returns the error for a message that can't be converted to JSON."""
    return StashError(
        f"message {message.message_id!a} can't be converted to JSON: {error}; nothing was stored; "
        "use only JSON types in tool arguments and results"
    )


def decode(frame: bytes, contents: Sequence[bytes]) -> Message:
    """Converts a frame and the contents of its parts back to the message.

    Raises:
        ValueError: They are not in the format of this release.
    """
    try:
        data = _load(frame)
        bodies = map(_load, contents)
        parts = [_join(part, body) for part, body in zip(data["parts"], bodies, strict=True)]
        return message_from_dict(data | {"parts": parts})
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not a message: {error}") from error


def searchable_text(body: bytes) -> str:
    """Returns the text of a content to search and to show, without the data of attachments.

    Raises:
        ValueError: It is not in the format of this release.
    """
    try:
        payload = _load(body)
        lines = [payload[name] for name in _CONTENT_FIELDS if name in payload]
        for name, fields in _NESTED_CONTENT_FIELDS.items():
            nested = payload.get(name, {})
            lines += (
                _as_text(nested[each])
                for each in fields
                if each in nested and each in _SEARCHABLE_FIELDS
            )
        return "\n".join(filter(None, lines))
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not a content: {error}") from error


def _split(part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    frame, payload = dict(part), {}
    for name in _CONTENT_FIELDS:
        if name in frame:
            payload[name] = frame.pop(name)
    for name, fields in _NESTED_CONTENT_FIELDS.items():
        if name in frame:
            nested = dict(frame[name])
            payload[name] = {each: nested.pop(each) for each in fields if each in nested}
            frame[name] = nested
    return frame, payload


def _join(frame: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    nested = {
        name: frame.get(name, {}) | payload[name]
        for name in _NESTED_CONTENT_FIELDS
        if name in payload
    }
    return frame | payload | nested


def _about(message: Message) -> str:
    calls = [call.name for call in message.function_calls]
    results = [result.name for result in message.function_responses]
    words = [message.role.value]
    if calls:
        words.append(f"calls {', '.join(dict.fromkeys(calls))}")
    if results:
        words.append(f"result of {', '.join(dict.fromkeys(results))}")
    if message.synthetic:
        words.append(message.synthetic.value)
    # A model can invent tool names with characters that a database rejects.
    about = "; ".join(words).encode(errors="replace").decode().replace("\0", "?")
    return about if len(about) <= _MAX_ABOUT_LENGTH else f"{about[: _MAX_ABOUT_LENGTH - 1]}…"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dump(data: Any) -> bytes:
    # Surrogates are encoded, not escaped: JSON would decode two adjacent escapes as one character.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _load(data: bytes) -> Any:
    return json.loads(bytes(data).decode("utf-8", "surrogatepass"))
