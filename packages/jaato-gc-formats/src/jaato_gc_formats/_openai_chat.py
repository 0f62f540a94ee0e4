"""OpenAI Chat Completions, and the many servers that speak it."""

from collections.abc import Iterator, Sequence
from typing import Any

from jaato_gc import FunctionCall, InlineData, Message, Part, Role, ToolResult
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._openai_chat_rules import refusals
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import INSIDE, flatten, unflatten
from jaato_gc_formats._wire import (
    OPAQUE,
    Fields,
    arguments,
    arguments_text,
    attachment,
    attachment_base64,
    attachment_url,
    marked,
    opaque,
    own_extra,
    own_fields,
    plain,
    without,
)

ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.MODEL,
    "tool": Role.TOOL, "function": Role.TOOL,
}  # fmt: skip
ROLE_NAMES = {
    Role.SYSTEM: "system", Role.USER: "user", Role.MODEL: "assistant", Role.TOOL: "tool",
}  # fmt: skip
THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers other than OpenAI's own put what the model thought."""
ATTACHED = ("type", "image_url", "input_audio", "file")
"""What is left of an attachment that was cleared, and is not its text's."""
LIST = "list"
"""Kept in the place of content that was a list of parts."""


class OpenAIChat(ApiFormat):
    """``messages`` of ``POST /v1/chat/completions``."""

    name = "openai-chat"
    summary = "OpenAI Chat Completions messages"
    items_key = "messages"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if isinstance(first, dict) and isinstance(first.get("messages"), list):
            beside = any(key in first for key in ("system", "anthropic_version"))
            return _looks_like_chat(first["messages"]) * (0.5 if beside else 1.0)
        return _looks_like_chat(records)

    # --- reading ---

    def read_item(self, item: Fields) -> Message:
        role = ROLES.get(item.get("role", ""), Role.USER)
        fields = without(item, "role", "content", "tool_calls", "function_call", "tool_call_id")
        if item.get("role") != ROLE_NAMES[role]:
            fields["role"] = item.get("role")
        if role is Role.TOOL:
            return self._read_result(item, fields)
        parts = [
            Part(thought=fields.pop(key), extra={"field": key})
            for key in THOUGHTS
            if isinstance(item.get(key), str) and item[key]
        ]
        content = item.get("content")
        if isinstance(content, list):
            fields["content"] = LIST
            parts += map(_read_content, content)
        elif content:
            parts.append(Part(text=str(content)))
        elif "content" in item:
            fields["content"] = content
        if isinstance(item.get("refusal"), str):
            parts.append(Part(text=fields.pop("refusal"), extra={"refusal": True}))
        parts += map(_read_call, item.get("tool_calls") or ())
        if "tool_calls" in item and not item["tool_calls"]:
            fields["tool_calls"] = item["tool_calls"]
        if legacy := item.get("function_call"):
            args, kept = arguments(legacy.get("arguments"))
            call = FunctionCall(None, legacy.get("name") or "", args)
            parts.append(Part(function_call=call, extra={"legacy": True, **kept}))
        elif "function_call" in item:
            fields["function_call"] = legacy
        return Message(role, parts, extra=marked(self.name, fields, parts))

    def _read_result(self, item: Fields, fields: Fields) -> Message:
        text, kept, attachments = flatten(item.get("content"), _read_attachment)
        if item.get("role") == "function":
            answer = ToolResult(None, item.get("name") or "", text)
        else:
            answer = ToolResult(item.get("tool_call_id"), item.get("name") or "", text)
        parts = [Part(function_response=answer, extra=kept or None), *attachments]
        return Message(Role.TOOL, parts, extra=marked(self.name, fields, parts))

    def answer_items(self, answer: Any) -> list[Any]:
        data = plain(answer)
        if isinstance(data, dict) and "choices" in data:
            return [data["choices"][0]["message"]]
        return [answer]

    # --- writing ---

    def write_item(self, message: Message) -> list[Fields]:
        fields = own_fields(message, self.name)
        if message.function_responses:
            return self._write_results(message, fields)
        item: Fields = {"role": fields.pop("role", ROLE_NAMES[message.role])}
        was = fields.pop("content", ...)
        content: list[Fields] = []
        calls: list[Fields] = []
        for part in message.parts:
            extra = own_extra(message, part, self.name)
            if call := part.function_call:
                if extra.pop("legacy", False):
                    text = arguments_text(call.args, extra.get("arguments"))
                    fields["function_call"] = {"name": call.name, "arguments": text}
                else:
                    calls.append(_write_call(call, extra))
            elif part.thought is not None:
                if field := extra.get("field"):
                    fields[field] = part.thought
            elif extra.get("refusal") is True:
                fields["refusal"] = part.text
            else:
                content.append(_write_content(part, extra))
        plain_text = len(content) == 1 and set(content[0]) == {"type", "text"}
        if was == LIST or (content and not plain_text):
            item["content"] = content
        elif content:
            item["content"] = content[0]["text"]
        elif was is not ...:
            item["content"] = was
        if calls:
            item["tool_calls"] = calls
        return [{**item, **fields}]

    def _write_results(self, message: Message, fields: Fields) -> list[Fields]:
        items: list[Fields] = []
        parts = message.parts
        for index, part in enumerate(parts):
            if not (answer := part.function_response):
                continue
            inside = []
            for follower in parts[index + 1 :]:
                if follower.function_response or follower.function_call:
                    break
                inside.append(follower)
            extra = own_extra(message, part, self.name)
            content = unflatten(
                answer.result,
                extra.get("content"),
                inside,
                lambda part: _write_content(
                    part, without(own_extra(message, part, self.name), INSIDE)
                ),
                lambda part: {"type": "text", "text": part.text},
            )
            legacy = fields.get("role") == "function"
            address = {} if legacy else {"tool_call_id": answer.call_id}
            items.append({"role": "tool", **address, "content": content, **fields})
        return items

    def check(self, request: Fields) -> Iterator[Refusal]:
        return refusals(request)


def _read_content(block: Any) -> Part:
    if isinstance(block, str):
        return Part(text=block, extra={OPAQUE: block})
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return Part(text=block["text"], extra=without(block, "type", "text") or None)
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        return Part(text=block["refusal"], extra=without(block, "refusal"))
    return _read_attachment(block) or opaque(block)


def _read_attachment(block: Fields) -> Part | None:
    kind = block.get("type")
    value = block.get(kind) if kind else None
    if kind == "image_url" and isinstance(value, dict) and isinstance(value.get("url"), str):
        kept = {**without(block, "image_url"), "image_url": without(value, "url")}
        return Part(inline_data=attachment(value["url"]), extra=kept)
    if kind == "input_audio" and isinstance(value, dict) and isinstance(value.get("data"), str):
        kept = {**without(block, "input_audio"), "input_audio": without(value, "data")}
        data = InlineData(f"audio/{value.get('format', '*')}", data=value["data"])
        return Part(inline_data=data, extra=kept)
    if kind == "file" and isinstance(value, dict) and isinstance(value.get("file_data"), str):
        kept = {**without(block, "file"), "file": without(value, "file_data")}
        return Part(inline_data=attachment(value["file_data"], "application/*"), extra=kept)
    return None


def _write_content(part: Part, extra: Fields) -> Fields:
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
    image = {"url": attachment_url(data), **extra.get("image_url", {})}
    return {"type": "image_url", **extra, "image_url": image}


def _read_call(item: Any) -> Part:
    call = item if isinstance(item, dict) else plain(item)
    kind = "custom" if call.get("type") == "custom" else "function"
    function = call.get(kind) or {}
    if kind == "custom":
        args, kept = {"input": function.get("input")}, Fields()
    else:
        args, kept = arguments(function.get("arguments"))
    extra = {**without(call, "id", "type", kind), **kept}
    if "type" not in call or kind == "custom":
        extra["type"] = call.get("type")
    if inner := without(function, "name", "arguments", "input"):
        extra["function"] = inner
    return Part(
        function_call=FunctionCall(call.get("id"), function.get("name") or "", args),
        extra=extra or None,
    )


def _write_call(call: FunctionCall, extra: Fields) -> Fields:
    kind = extra.pop("type", "function")
    function: Fields = {"name": call.name}
    if kind == "custom":
        function["input"] = call.args.get("input")
    else:
        function["arguments"] = arguments_text(call.args, extra.pop("arguments", None))
    function |= extra.pop("function", {})
    item: Fields = {"id": call.id}
    if kind is not None:
        item["type"] = kind
    return {**item, kind if kind == "custom" else "function": function, **extra}


def _looks_like_chat(messages: Sequence[Any]) -> float:
    """How much of a list is chat messages, and not of a dialect."""
    if not messages:
        return 0.0
    score = 1.0
    for message in map(plain, messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            return 0.0
        content = message.get("content")
        if not isinstance(content, str | list | None):
            return 0.0
        kinds = {block.get("type") for block in content or () if isinstance(block, dict)}
        if kinds & {"tool_use", "tool_result", "thinking", "redacted_thinking", "image"}:
            return 0.0
        if message.get("tool_calls") or message["role"] in ("tool", "developer", "function"):
            return 0.95
        score = min(score, 0.6 if message["role"] == "system" else 0.55)
    return score
