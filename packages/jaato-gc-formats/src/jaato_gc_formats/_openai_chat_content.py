"""Reads and writes the content and the calls of OpenAI Chat Completions messages."""

from typing import Any

from jaato_gc import FunctionCall, InlineData, Part, Role
from jaato_gc_formats._openai_common import attachment_note, mistyped, sendable_url
from jaato_gc_formats._wire import (
    OPAQUE,
    Fields,
    attachment_base64,
    attachment_from_url,
    attachment_url,
    dump_arguments,
    opaque_part,
    parse_arguments,
    plain,
    without,
)

ATTACHED = ("type", "image_url", "input_audio", "file")
"""Fields of an attachment that do not apply to the text that replaces it."""
FOREIGN_CONTENT = (
    None, "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document",
    "input_text", "output_text", "input_image", "input_file",
)  # fmt: skip
"""Types of blocks that only Anthropic's API and OpenAI Responses have."""
TYPES = {"role": str, "name": str, "tool_call_id": str, "tool_calls": list, "function_call": dict}
CALL_TYPES = {"id": str, "type": str, "function": dict, "custom": dict}


def mistyped_field(message: Fields) -> str | None:
    """Returns the path of the first field with a wrong type; ``None`` if all types are right."""
    if wrong := mistyped(message, TYPES):
        return wrong
    for index, call in enumerate(map(plain, message.get("tool_calls") or ())):
        if not isinstance(call, dict):
            return f"tool_calls[{index}]"
        if wrong := mistyped(call, CALL_TYPES):
            return f"tool_calls[{index}].{wrong}"
        if mistyped(call.get("function") or call.get("custom") or {}, {"name": str}):
            return f"tool_calls[{index}].function.name"
    if mistyped(message.get("function_call") or {}, {"name": str}):
        return "function_call.name"
    return None


def read_content(block: Any) -> Part:
    """Converts one block of a message's content to a part."""
    if not isinstance(block, dict):
        return opaque_part(block)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return Part(text=block["text"], extra=without(block, "type", "text") or None)
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        return Part(text=block["refusal"], extra=without(block, "refusal"))
    return read_attachment(block) or opaque_part(block)


def read_attachment(block: Fields) -> Part | None:
    """Converts an image, audio or file block to a part; ``None`` for any other block."""
    kind = block.get("type")
    value = block.get(kind) if kind else None
    if kind == "image_url" and isinstance(value, dict) and isinstance(value.get("url"), str):
        kept = {**without(block, "image_url"), "image_url": without(value, "url")}
        return Part(inline_data=attachment_from_url(value["url"]), extra=kept)
    if kind == "input_audio" and isinstance(value, dict) and isinstance(value.get("data"), str):
        kept = {**without(block, "input_audio"), "input_audio": without(value, "data")}
        data = InlineData(f"audio/{value.get('format', '*')}", data=value["data"])
        return Part(inline_data=data, extra=kept)
    if kind == "file" and isinstance(value, dict) and isinstance(value.get("file_data"), str):
        kept = {**without(block, "file"), "file": without(value, "file_data")}
        return Part(
            inline_data=attachment_from_url(value["file_data"], "application/*"), extra=kept
        )
    return None


def write_content(part: Part, extra: Fields, role: Role) -> Fields:
    """Converts a part to a block of a message's or a result's content."""
    if OPAQUE in extra:
        block: Fields = extra[OPAQUE]
        return block
    if part.inline_data is None:
        if extra.get("type") == "refusal":
            return {**extra, "refusal": part.text}
        return {"type": "text", "text": part.text or "", **without(extra, *ATTACHED)}
    data = part.inline_data
    if "input_audio" in extra:
        return {**extra, "input_audio": {"data": attachment_base64(data), **extra["input_audio"]}}
    if "file" in extra:
        return {**extra, "file": {"file_data": attachment_url(data), **extra["file"]}}
    if "image_url" in extra:
        return {**extra, "image_url": {"url": attachment_url(data), **extra["image_url"]}}
    return _write_foreign(data, role)


def _write_foreign(data: InlineData, role: Role) -> Fields:
    url = sendable_url(data)
    if url is not None and role is Role.USER:
        if data.mime_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        if url.startswith("data:"):
            return {"type": "file", "file": {"filename": "attachment", "file_data": url}}
    return {"type": "text", "text": attachment_note(data)}


def user_message(blocks: list[Fields]) -> list[Fields]:
    """Returns a list with a user message of the blocks; an empty list if there are none."""
    if not blocks:
        return []
    return [{"role": "user", "content": blocks[0]["text"] if is_plain_text(blocks) else blocks}]


def is_plain_text(blocks: list[Fields]) -> bool:
    """Returns whether content can be written as a string instead of a list of blocks."""
    return len(blocks) == 1 and set(blocks[0]) == {"type", "text"}


def read_call(item: Any) -> Part:
    """Converts one call of a message to a part."""
    call = item if isinstance(item, dict) else plain(item)
    kind = "custom" if call.get("type") == "custom" else "function"
    function = call.get(kind) or {}
    if kind == "custom":
        args, kept = {"input": function.get("input")}, Fields()
    else:
        args, kept = parse_arguments(function.get("arguments"))
    extra = {**without(call, "id", "type", kind), **kept}
    if "type" not in call or kind == "custom":
        extra["type"] = call.get("type")
    if inner := without(function, "name", "arguments", "input"):
        extra["function"] = inner
    return Part(
        function_call=FunctionCall(call.get("id"), function.get("name") or "", args),
        extra=extra or None,
    )


def write_call(call: FunctionCall, extra: Fields) -> Fields:
    """Converts a call to an element of ``tool_calls``."""
    kind = extra.pop("type", "function")
    function: Fields = {"name": call.name}
    if kind == "custom":
        function["input"] = call.args.get("input")
    else:
        function["arguments"] = dump_arguments(call.args, extra.pop("arguments", None))
    function |= extra.pop("function", {})
    item: Fields = {"id": call.id}
    if kind is not None:
        item["type"] = kind
    return {**item, kind if kind == "custom" else "function": function, **extra}
