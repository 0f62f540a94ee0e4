"""Reads and writes the content of OpenAI Responses messages and results."""

from typing import Any

from jaato_gc import InlineData, Part
from jaato_gc.plugin import as_text
from jaato_gc_formats._openai_common import attachment_note, sendable_url
from jaato_gc_formats._openai_responses_kinds import ASSISTANT
from jaato_gc_formats._wire import (
    MARKS,
    OPAQUE,
    Fields,
    attachment_base64,
    attachment_from_url,
    attachment_url,
    opaque_part,
    without,
)

ATTACHMENTS = ("input_image", "input_file", "input_audio", "computer_screenshot")


def text_type(role: str) -> str:
    """Returns the type of the text blocks in a message with the role."""
    return "output_text" if role == ASSISTANT else "input_text"


def read_block(block: Any, role: str) -> Part:
    """Converts one block of a message's content to a part."""
    if not isinstance(block, dict):
        return opaque_part(block)
    kind = block.get("type")
    for field in ("refusal", "text"):
        if isinstance(block.get(field), str):
            kept = without(block, field)
            if kind == text_type(role):
                del kept["type"]
            return Part(text=block[field], extra=kept or None)
    return read_attachment(block) or Part(text=readable(block), extra={OPAQUE: block})


def read_attachment(block: Fields) -> Part | None:
    """Converts an image, file or audio block to a part; ``None`` for any other block."""
    kind = block.get("type")
    if kind in ("input_image", "computer_screenshot"):
        if isinstance(block.get("image_url"), str):
            data = attachment_from_url(block["image_url"])
            return Part(inline_data=data, extra=without(block, "image_url"))
        return Part(inline_data=InlineData("image/*"), extra=dict(block))
    if kind == "input_file":
        content = block.get("file_data")
        if isinstance(content, str):
            if content.startswith("data:"):
                data = attachment_from_url(content, "application/*")
            else:
                data = InlineData("application/*", data=content)
            return Part(inline_data=data, extra=without(block, "file_data"))
        if isinstance(block.get("file_url"), str):
            data = InlineData("application/*", uri=block["file_url"])
            return Part(inline_data=data, extra=without(block, "file_url"))
        return Part(inline_data=InlineData("application/*"), extra=dict(block))
    sound = block.get("input_audio")
    if kind == "input_audio" and isinstance(sound, dict) and isinstance(sound.get("data"), str):
        data = InlineData(f"audio/{sound.get('format', '*')}", data=sound["data"])
        return Part(inline_data=data, extra={**block, "input_audio": without(sound, "data")})
    return None


def write_block(part: Part, extra: Fields, role: str) -> Fields:
    """Converts a part to a block of a message's or a result's content."""
    if OPAQUE in extra:
        block: Fields = extra[OPAQUE]
        return block
    if part.inline_data:
        return _write_attachment(part.inline_data, extra, role)
    if extra.get("type") in ATTACHMENTS:  # the text replaces a removed attachment
        extra = {key: extra[key] for key in MARKS if key in extra}
    field = "refusal" if extra.get("type") == "refusal" else "text"
    return {"type": text_type(role), **extra, field: part.text or ""}


def _write_attachment(data: InlineData, extra: Fields, role: str) -> Fields:
    kind = extra.get("type")
    if kind == "input_audio":
        return {**extra, "input_audio": {**extra["input_audio"], "data": attachment_base64(data)}}
    if kind == "input_file":
        if data.uri is not None:
            return {**extra, "file_url": data.uri}
        return {**extra, "file_data": data.data} if data.data is not None else extra
    if kind is not None:
        known = data.uri is not None or data.data is not None
        return {**extra, "image_url": attachment_url(data)} if known else extra
    url = sendable_url(data)
    if url is None or role != "user":  # only user messages and results may have attachments
        return {"type": text_type(role), "text": attachment_note(data)}
    if data.mime_type.startswith("image/"):
        return {"type": "input_image", "detail": "auto", "image_url": url}
    if not url.startswith("data:"):
        return {"type": "input_file", "file_url": url}
    return {"type": "input_file", "filename": "attachment", "file_data": url}


def readable(value: Any) -> str:
    """Returns the text of a value without encrypted content and ``data:`` payloads."""
    return as_text(_without_encrypted(value))


def _without_encrypted(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_encrypted(each)
            for name, each in value.items()
            if name != "encrypted_content"
        }
    if isinstance(value, list):
        return [_without_encrypted(each) for each in value]
    if isinstance(value, str) and value.startswith("data:"):
        return value.partition(",")[0]
    return value
