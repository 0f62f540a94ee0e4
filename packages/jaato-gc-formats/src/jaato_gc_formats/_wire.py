"""Helpers for the objects of providers: plain data, origins, extra fields, attachments."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaato_gc import InlineData, Message, Part
from jaato_gc.plugin import as_text
from jaato_gc_formats._errors import FormatError

Fields = dict[str, Any]

MAX_PREVIEW = 120


@dataclass(frozen=True, slots=True)
class Origin:
    """The objects that a message was read from.

    Args:
        format: Name of the API format.
        items: The provider's objects.
        parts: The parts that were read from them.
    """

    format: str
    items: tuple[Any, ...]
    parts: tuple[Part, ...]


def original_items(message: Message, format: str) -> tuple[Any, ...] | None:
    """Returns the objects that a message was read from, or ``None`` if its parts have changed.

    Also returns ``None`` if the message was read from another format, or from none.
    """
    origin = message.origin
    if not isinstance(origin, Origin) or origin.format != format:
        return None
    return origin.items if origin.parts == message.parts else None


def plain(value: Any) -> Any:
    """Converts an SDK's object to plain data. Plain data is returned unchanged."""
    if isinstance(value, dict | list | str | int | float | None):
        return value
    if hasattr(value, "model_dump"):
        data = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        role = getattr(value, "role", None)
        if isinstance(role, str):  # some of Google's classes have a fixed role that is not a field
            data.setdefault("role", role)
        return data
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    return value


def plain_dict(value: Any, what: str) -> Fields:
    """Converts an SDK's object to a dictionary.

    Args:
        value: The object.
        what: Name of the value for the error message.

    Raises:
        FormatError: The value is not an object with fields.
    """
    data = plain(value)
    if not isinstance(data, dict):
        raise FormatError(f"{what}: expected an object with fields, got {preview(data)}")
    return data


def field_of(value: Any, name: str) -> Any:
    """Returns a field of an SDK's object or of plain data; ``None`` if it has none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def preview(value: Any) -> str:
    """Returns the type and the beginning of a value, for error messages."""
    text = as_text(value)
    return f"{type(value).__name__} {text[:MAX_PREVIEW]!r}"


READ_AS = "read as"
"""Key of a message's ``extra`` for the format it was read from. No provider has such a field."""
MADE_FROM = "made from"
"""Key of an answer's ``extra`` for the digest of what it was made from: see `_bound_thoughts`."""


def message_extra(format: str, fields: Fields, parts: list[Part]) -> Fields | None:
    """Returns the ``extra`` of a message: its other fields, and the format they belong to.

    The format applies to the ``extra`` of the parts too. It prevents fields of one provider from
    being sent to another.
    """
    if not fields and not any(part.extra for part in parts):
        return None
    return {READ_AS: format, **fields}


def own_fields(message: Message, format: str) -> Fields:
    """Returns the extra fields of a message that was read from this format."""
    extra = message.extra or {}
    if extra.get(READ_AS) != format:
        return {}
    return without(extra, READ_AS, MADE_FROM)


def own_extra(message: Message, part: Part, format: str) -> Fields:
    """Returns the extra fields of a part that was read from this format."""
    if part.extra and (message.extra or {}).get(READ_AS) == format:
        return dict(part.extra)
    return {}


def without(fields: Mapping[str, Any], *names: str) -> Fields:
    """Returns a copy of the fields without some of them."""
    return {name: value for name, value in fields.items() if name not in names}


# --- content that all providers have in some form ---

OPAQUE = "block"
"""Key of a part's ``extra`` for a block that only its provider understands."""


MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Fields of Anthropic's blocks and tools, and of OpenAI's content blocks, that mark the end of a
cached prefix. They are no part of what is said."""
HOLDERS = ("content", "output", "source")
"""Fields whose value may have blocks. No others: the arguments of a call may have such names."""


def unmarked(value: Any) -> Any:
    """Returns items, blocks or tools as plain data without their cache marks."""
    value = plain(value)
    if isinstance(value, list | tuple):
        return [unmarked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: unmarked(each) if key in HOLDERS else each
        for key, each in value.items()
        if key not in MARKS
    }


def opaque_part(block: Any) -> Part:
    """Returns a part for a block of an unknown type: counted as text, written unchanged."""
    return Part(text=as_text(unmarked(block)), extra={OPAQUE: block})


OBJECT: Fields = {}
"""Kept to mark arguments that were an object instead of JSON text."""


def parse_arguments(text: Any) -> tuple[Fields, Fields]:
    """Returns the arguments of a call, and the fields to keep for writing them unchanged.

    Models write arguments as JSON text, sometimes with unusual spacing, sometimes invalid.
    """
    if isinstance(text, dict):
        return text, {"arguments": OBJECT}
    try:
        args = json.loads(text) if text else {}
    except (TypeError, ValueError, RecursionError):
        args = None
    if not isinstance(args, dict):
        return {"arguments": text}, {"arguments": text}
    return args, {} if text == compact_json(args) else {"arguments": text}


def dump_arguments(args: Fields, kept: Any) -> Any:
    """Returns the arguments of a call as JSON text; unchanged arguments keep their original text.

    Args:
        args: The arguments.
        kept: The value that `parse_arguments` kept, if any.
    """
    if kept == OBJECT:
        return args
    if kept is not None and parse_arguments(kept)[0] == args:
        return kept
    return compact_json(args)


def compact_json(value: Any) -> str:
    """Returns a value as JSON text the way models write it: without spaces or ASCII escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def attachment_from_url(url: str, mime_type: str = "image/*") -> InlineData:
    """Returns the image or file with a URL, which may be a ``data:`` URL."""
    if url.startswith("data:"):
        return InlineData(url[5:].partition(";")[0].partition(",")[0] or mime_type, data=url)
    return InlineData(mime_type, uri=url)


def attachment_url(data: InlineData) -> str:
    """Returns the URL of an attachment, or its content as a ``data:`` URL."""
    if data.uri is not None:
        return data.uri
    if isinstance(data.data, str) and data.data.startswith("data:"):
        return data.data
    return f"data:{data.mime_type};base64,{attachment_base64(data)}"


def attachment_base64(data: InlineData) -> str:
    """Returns the content of an attachment in base64."""
    if isinstance(data.data, bytes):
        return base64.b64encode(data.data).decode()
    text = data.data or ""
    return text.partition(",")[2] if text.startswith("data:") else text
