"""A provider's own objects: taken apart into plain data, remembered, and given back."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaato_gc import InlineData, Message, Part, as_text
from jaato_gc_formats._errors import FormatError

Fields = dict[str, Any]

MAX_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Origin:
    """What a message was read from.

    Args:
        format: The API format.
        items: The provider's own objects, as they were handed over.
        parts: The parts that were read from them.
    """

    format: str
    items: tuple[Any, ...]
    parts: tuple[Part, ...]


def untouched_items(message: Message, format: str) -> tuple[Any, ...] | None:
    """The objects a message was read from, if none of its parts was replaced since."""
    origin = message.origin
    if not isinstance(origin, Origin) or origin.format != format:
        return None
    if len(origin.parts) != len(message.parts):
        return None
    if any(one is not other for one, other in zip(origin.parts, message.parts, strict=True)):
        return None
    return origin.items


def plain(value: Any) -> Any:
    """An SDK's object as plain data; plain data as it is."""
    if isinstance(value, dict | list | str | int | float | None):
        return value
    if hasattr(value, "model_dump"):
        data = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        role = getattr(value, "role", None)
        if isinstance(role, str):  # Google has classes that say it by what they are
            data.setdefault("role", role)
        return data
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    return value


def plain_dict(value: Any, what: str) -> Fields:
    """Plain data that has to be an object."""
    data = plain(value)
    if not isinstance(data, dict):
        raise FormatError(f"{what} is {shown(data)}, where an object with fields was expected")
    return data


def shown(value: Any) -> str:
    """A value as errors show it: what it is, and how it begins."""
    text = as_text(value)
    return f"{type(value).__name__} {text[:MAX_SHOWN]!r}"


READ_AS = "read as"
"""Under this name a message's ``extra`` says whose it is: like no field that a message has."""


def marked(format: str, fields: Fields, parts: list[Part]) -> Fields | None:
    """A message's own ``extra``: its other fields, and whose they are and its parts' are.

    Fields of one provider mean nothing to another; the mark keeps them from being sent there.
    """
    if not fields and not any(part.extra for part in parts):
        return None
    return {READ_AS: format, **fields}


def own_fields(message: Message, format: str) -> Fields:
    """The fields that a message brought along from this format."""
    extra = message.extra or {}
    if extra.get(READ_AS) != format:
        return {}
    return without(extra, READ_AS)


def own_extra(message: Message, part: Part, format: str) -> Fields:
    """The fields that a part brought along from this format."""
    if part.extra and (message.extra or {}).get(READ_AS) == format:
        return dict(part.extra)
    return {}


def without(fields: Mapping[str, Any], *names: str) -> Fields:
    """The other fields."""
    return {name: value for name, value in fields.items() if name not in names}


# --- parts that all providers have in some shape ---

OPAQUE = "block"
"""Under this name a part carries a block that only its provider understands."""


def opaque(block: Any) -> Part:
    """A part for a block that only its provider knows: counted as text, sent back as it is."""
    return Part(text=as_text(block), extra={OPAQUE: block})


OBJECT: Fields = {}
"""Kept in the place of arguments that were an object: no text is like it."""


def arguments(text: Any) -> tuple[Fields, Fields]:
    """The arguments of a call, and what has to be kept to write them as they were.

    Models write them as JSON text: sometimes spaced in their own way, sometimes broken.
    """
    if isinstance(text, dict):
        return text, {"arguments": OBJECT}
    try:
        args = json.loads(text) if text else {}
    except (TypeError, ValueError, RecursionError):
        args = None
    if not isinstance(args, dict):
        return {"arguments": text}, {"arguments": text}
    return args, {} if text == compact(args) else {"arguments": text}


def arguments_text(args: Fields, kept: Any) -> Any:
    """The arguments of a call as JSON text: as they were, if they still are what they were."""
    if kept == OBJECT:
        return args
    if kept is not None and arguments(kept)[0] == args:
        return kept
    return compact(args)


def compact(value: Any) -> str:
    """JSON text as models write it: without spaces, in the letters of its language."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def attachment(url: str, mime_type: str = "image/*") -> InlineData:
    """An image or a file, from the address or the ``data:`` URL that stands for it."""
    if url.startswith("data:"):
        return InlineData(url[5:].partition(";")[0].partition(",")[0] or mime_type, data=url)
    return InlineData(mime_type, uri=url)


def attachment_url(data: InlineData) -> str:
    """The address of an attachment, or its content as a ``data:`` URL."""
    if data.uri is not None:
        return data.uri
    if isinstance(data.data, str) and data.data.startswith("data:"):
        return data.data
    return f"data:{data.mime_type};base64,{attachment_base64(data)}"


def attachment_base64(data: InlineData) -> str:
    """The content of an attachment in base64."""
    if isinstance(data.data, bytes):
        return base64.b64encode(data.data).decode()
    text = data.data or ""
    return text.partition(",")[2] if text.startswith("data:") else text
