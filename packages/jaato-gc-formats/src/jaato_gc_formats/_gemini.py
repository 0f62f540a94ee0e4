"""The format of Google's Gemini API, with field names in camelCase or snake_case."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc import FunctionCall, InlineData, Message, Part, Role, ToolResult
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._gemini_rules import (
    SNAKE_CASE,
    content_parts,
    item_refusals,
    refusals,
    spelling,
)
from jaato_gc_formats._gemini_stream import joined
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import INSIDE, group_results, is_inside, with_attachments
from jaato_gc_formats._wire import (
    OPAQUE,
    READ_AS,
    Fields,
    attachment_base64,
    message_extra,
    opaque_part,
    original_items,
    own_extra,
    own_fields,
    plain,
    without,
)

ROLES = {"user": Role.USER, "model": Role.MODEL, "function": Role.TOOL, "tool": Role.TOOL}
ROLE_NAMES = {Role.USER: "user", Role.TOOL: "user", Role.MODEL: "model", Role.SYSTEM: "user"}
SHAPE = "shape"
"""Key of a system message's ``extra`` that records whether it was a string or a list of parts."""
BYTES = "base64 of bytes"
"""Key of an object that represents bytes in ``extra``, so that it can be saved as JSON."""
OUTPUT, ERROR = "output", "error"
"""Default fields of a function response for a tool's output and for its error."""
ANSWER_FIELDS = ("parts", "role", "candidates", "promptFeedback", "usageMetadata", "responseId")
"""Fields by which a response is recognized, including an empty one."""
ATTACHMENT_FIELDS = ("inlineData", "inline_data", "fileData", "file_data")
PART_FIELDS = (
    "text", "functionCall", "function_call", "functionResponse", "function_response",
    *ATTACHMENT_FIELDS,
    "executableCode", "executable_code", "codeExecutionResult", "code_execution_result",
)  # fmt: skip


class GeminiContents(ApiFormat):
    """The fields ``contents`` and ``systemInstruction`` of ``models.generateContent``."""

    name = "gemini"
    summary = "Google Gemini contents"
    items_key = "contents"
    system_keys = ("systemInstruction", "system_instruction")
    call_key = "config"
    output_keys = ("maxOutputTokens", "max_output_tokens")
    usage_key = "usageMetadata"
    input_usage = ("promptTokenCount", "toolUsePromptTokenCount")
    output_usage = "candidatesTokenCount"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if isinstance(first, dict) and isinstance(first.get("contents"), list):
            return _looks_like_contents(first["contents"])
        return _looks_like_contents(records)

    # --- reading ---

    def read_item(self, item: Fields) -> Message:
        fields = without(item, "role", "parts")
        parts = [part for data in content_parts(item) for part in _read_part(data)]
        name = item.get("role")
        role = ROLES.get(name or "", Role.USER)
        only_results = all(part.function_response or is_inside(part) for part in parts)
        if role is Role.USER and parts and only_results:
            role = Role.TOOL
        if name != ROLE_NAMES[role]:
            fields["role"] = name
        return Message(role, parts, extra=message_extra(self.name, fields, parts))

    def read_system(self, value: Any) -> Message:
        fields: Fields = {}
        if isinstance(value, str):
            fields, value = {SHAPE: "text"}, {"parts": [{"text": value}]}
        elif isinstance(value, list):
            texts = [{"text": part} if isinstance(part, str) else part for part in value]
            fields, value = {SHAPE: "list"}, {"parts": texts}
        fields |= without(value, "parts")
        parts = [part for data in content_parts(value) for part in _read_part(data)]
        return Message(Role.SYSTEM, parts, extra=message_extra(self.name, fields, parts))

    def answer_items(self, answer: Any) -> list[Any]:
        data = plain(answer)
        if not isinstance(data, dict) or data.keys().isdisjoint(ANSWER_FIELDS):
            raise self.no_answer(data)
        if "parts" in data:
            return [answer]
        contents = [candidate.get("content") for candidate in data.get("candidates") or ()]
        return [content for content in contents[:1] if content and content.get("parts")]

    def join_events(self, events: Sequence[Any]) -> Fields | None:
        return joined(map(plain, events))

    # --- writing ---

    def write_tool(self, definition: Fields) -> Fields:
        """Returns a function declaration. The declarations of all tools are in one object."""
        schema = definition["parameters"]
        return {**without(definition, "parameters"), "parameters_json_schema": schema}

    def write(self, messages: Iterable[Message]) -> list[Any]:
        contents: list[Any] = []
        calls: list[FunctionCall] = []
        for run in group_results(messages):
            originals = [original_items(message, self.name) for message in run]
            if len(run) == 1 or None not in originals:
                for message, original in zip(run, originals, strict=True):
                    contents += self.write_item(message) if original is None else original
            else:
                contents += self._merge_results(run, calls)
            calls = run[-1].function_calls or calls
        return _join_calls(contents)

    def _merge_results(self, run: list[Message], calls: list[FunctionCall]) -> list[Fields]:
        """Merges the responses to a turn of calls into one content, in the order of the calls.

        Other parts follow in a second content.
        """
        written = [content for message in run for content in self.write_item(message)]
        parts = [part for content in written for part in content["parts"]]
        responses = [part for part in parts if spelling(part, "functionResponse")]
        rest = [part for part in parts if not spelling(part, "functionResponse")]
        contents: list[Fields] = [{**written[0], "parts": _in_order_of(calls, responses)}]
        return [*contents, {"role": "user", "parts": rest}] if rest else contents

    def write_item(self, message: Message) -> list[Fields]:
        fields = own_fields(message, self.name)
        # Only newer models accept media in a function response, so it is written there only if it
        # was read from there.
        takes_media = (message.extra or {}).get(READ_AS) == self.name
        parts: list[Fields] = []
        beside: list[Fields] = []
        for part, attachments in with_attachments(message):
            if answer := part.function_response:
                media = [
                    self._write_part(message, each) for each in attachments if each.inline_data
                ]
                inside = media if takes_media else []
                beside += [] if takes_media else media
                extra = _decode_bytes(own_extra(message, part, self.name))
                parts.append(_write_response(answer, extra, inside))
            elif not _is_foreign_thought(part, own_extra(message, part, self.name)):
                parts.append(self._write_part(message, part))
        role = fields.pop("role", ROLE_NAMES[message.role])
        if role == "model" and message.function_responses:
            role = "user"
        named = {} if role is None else {"role": role}
        contents = [{"parts": parts, **named, **fields}] if parts else []
        return [*contents, {"role": "user", "parts": beside}] if beside else contents

    def _write_part(self, message: Message, part: Part) -> Fields:
        return _write_part(
            part, without(_decode_bytes(own_extra(message, part, self.name)), INSIDE)
        )

    def write_system(self, messages: list[Message], key: str) -> Any:  # noqa: ARG002
        fields = own_fields(messages[0], self.name)
        shape = fields.pop(SHAPE, None)
        parts = [
            self._write_part(message, part)
            for message in messages
            for part in message.parts
            if not _is_foreign_thought(part, own_extra(message, part, self.name))
        ]
        if shape == "text" and len(parts) == 1 and set(parts[0]) == {"text"}:
            return parts[0]["text"]
        return parts if shape == "list" else {"parts": parts, **fields}

    def check_items(self, items: Sequence[Any]) -> Iterator[Refusal]:
        return item_refusals(items)

    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:  # noqa: ARG002
        return refusals(request)


def _join_calls(contents: list[Any]) -> list[Any]:
    """Joins calls with the contents of the model before them: they must follow a user content."""
    joined: list[Any] = []
    for content in contents:
        while joined and _is_models(joined[-1]) and _is_models(content) and _has_calls(content):
            before, after = plain(joined.pop()), plain(content)
            content = {**before, "parts": [*before["parts"], *after["parts"]]}
        joined.append(content)
    return joined


def _is_models(content: Any) -> bool:
    role = content.get("role") if isinstance(content, dict) else getattr(content, "role", None)
    return bool(role == "model")


def _has_calls(content: Any) -> bool:
    parts = content_parts(plain(content))
    return any(isinstance(part, dict) and spelling(part, "functionCall") for part in parts)


def _in_order_of(calls: list[FunctionCall], responses: list[Fields]) -> list[Fields]:
    ordered: list[Fields] = []
    for call in calls:
        for part in responses:
            response = part[spelling(part, "functionResponse") or ""]
            identity = ("id", call.id) if call.id else ("name", call.name)
            if response.get(identity[0]) == identity[1]:
                ordered.append(part)
                responses = [other for other in responses if other is not part]
                break
    return ordered + responses


# --- parts ---


def _read_part(part: Any) -> list[Part]:
    if not isinstance(part, dict):
        return [opaque_part(part)]
    if key := spelling(part, "functionCall"):
        return [_read_call(part, key)]
    if key := spelling(part, "functionResponse"):
        return _read_response(part, key)
    if attached := _read_attachment(part):
        return [attached]
    if not isinstance(part.get("text"), str):
        return [opaque_part(_encode_bytes(part))]
    extra = _encode_bytes(without(part, "text"))
    if part.get("thought") is True:
        return [Part(thought=part["text"], extra=extra)]
    return [Part(text=part["text"], extra=extra or None)]


def _write_part(part: Part, extra: Fields) -> Fields:
    if OPAQUE in extra:
        block: Fields = extra[OPAQUE]
        return block
    if part.function_call:
        return _write_call(part.function_call, extra)
    if part.inline_data:
        return _write_attachment(part.inline_data, extra)
    if part.thought is not None:
        return {"text": part.thought, **extra}
    was_attachment = any(name in extra for name in ATTACHMENT_FIELDS)
    return {"text": part.text or "", **({} if was_attachment else extra)}


def _is_foreign_thought(part: Part, extra: Fields) -> bool:
    return part.thought is not None and "thought" not in extra


def _read_call(part: Fields, key: str) -> Part:
    call = plain(part[key])
    kept = {
        name: value
        for name, value in without(call, "id", "name", "args").items()
        if value is not None
    }
    args = call.get("args")
    if args == {}:
        kept["args"] = {}
    extra = without(part, key)
    if kept or key != "functionCall":
        extra[key] = kept
    return Part(
        function_call=FunctionCall(call.get("id"), call.get("name") or "", args or {}),
        extra=_encode_bytes(extra) or None,
    )


def _write_call(call: FunctionCall, extra: Fields) -> Fields:
    key, kept = _pop_kept(extra, "functionCall")
    identity = {"id": call.id} if call.id else {}
    args = {"args": call.args} if call.args else {}
    return {key: {**identity, "name": call.name, **args, **kept}, **extra}


def _read_response(part: Fields, key: str) -> list[Part]:
    given = {name: value for name, value in plain(part[key]).items() if value is not None}
    kept = without(given, "id", "name", "response", "parts")
    result = given.get("response")
    failed = isinstance(result, dict) and ERROR in result
    if isinstance(result, dict) and len(result) == 1:
        [(field, value)] = result.items()
        if isinstance(value, str):
            result, kept["response"] = value, field
    attachments = [_read_attachment(each) for each in content_parts(given)]
    inside = [each for each in attachments if each]
    if len(inside) != len(attachments):
        inside, kept["parts"] = [], content_parts(given)
    inside = [replace(each, extra={INSIDE: True, **(each.extra or {})}) for each in inside]
    extra = without(part, key)
    if kept or key != "functionResponse":
        extra[key] = kept
    answer = ToolResult(given.get("id"), given.get("name") or "", result, is_error=failed)
    return [Part(function_response=answer, extra=_encode_bytes(extra) or None), *inside]


def _write_response(answer: ToolResult, extra: Fields, inside: list[Fields]) -> Fields:
    key, kept = _pop_kept(extra, "functionResponse")
    field = kept.pop("response", ERROR if answer.is_error else OUTPUT)
    response = {} if answer.result is None else answer.result
    if not isinstance(response, dict):
        response = {field: response}
    identity = {"id": answer.call_id} if answer.call_id else {}
    parts = {"parts": inside} if inside else {}
    return {key: {**identity, "name": answer.name, "response": response, **parts, **kept}, **extra}


def _read_attachment(part: Any) -> Part | None:
    """Returns a part for inline data or a file; ``None`` for any other part.

    The fields kept in ``extra`` record whether the names are in camelCase or snake_case.
    """
    if not isinstance(part, dict):
        return None
    if key := spelling(part, "inlineData"):
        given = plain(part[key])
        mime_key = spelling(given, "mimeType") or "mimeType"
        if not isinstance(given.get("data"), str | bytes):
            return None
        data = InlineData(given.get(mime_key) or "", data=given["data"])
        kept = without(given, mime_key, "data")
    elif key := spelling(part, "fileData"):
        given = plain(part[key])
        mime_key = spelling(given, "mimeType") or "mimeType"
        uri_key = spelling(given, "fileUri") or "fileUri"
        data = InlineData(given.get(mime_key) or "", uri=given.get(uri_key))
        kept = {**without(given, mime_key, uri_key), uri_key: None}
    else:
        return None
    return Part(inline_data=data, extra=_encode_bytes({**part, key: {**kept, mime_key: None}}))


def _write_attachment(data: InlineData, extra: Fields) -> Fields:
    is_lost = not data.data if data.uri is None else "://" not in data.uri
    if is_lost and not extra:  # no content, or a file id of another provider
        return {"text": f"[{data.mime_type} attachment]"}
    name = "inlineData" if data.uri is None else "fileData"
    key, kept = _pop_kept(extra, name)
    if data.mime_type:
        kept[_kept_spelling(kept, "mimeType")] = data.mime_type
    if data.uri is not None:
        kept[_kept_spelling(kept, "fileUri")] = data.uri
    else:
        kept["data"] = data.data if isinstance(data.data, bytes) else attachment_base64(data)
    return {key: {name: value for name, value in kept.items() if value is not None}, **extra}


def _kept_spelling(fields: Fields, name: str) -> str:
    return SNAKE_CASE[name] if SNAKE_CASE[name] in fields else name


def _pop_kept(extra: Fields, name: str) -> tuple[str, Fields]:
    """Pops the kept fields of a part's content from ``extra``; returns their key and value."""
    key = _kept_spelling(extra, name)
    return key, dict(extra.pop(key, None) or {})


def _encode_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: _encode_bytes(each) for name, each in value.items()}
    return [_encode_bytes(each) for each in value] if isinstance(value, list) else value


def _decode_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {BYTES}:
            return base64.b64decode(value[BYTES])
        return {name: _decode_bytes(each) for name, each in value.items()}
    return [_decode_bytes(each) for each in value] if isinstance(value, list) else value


def _looks_like_contents(contents: Sequence[Any]) -> float:
    """Returns the confidence that a list consists of Gemini's contents."""
    if not contents:
        return 0.0
    for content in map(plain, contents):
        if not isinstance(content, dict) or content.get("role", "user") not in ROLES:
            return 0.0
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            return 0.0
        for part in map(plain, parts):
            if not isinstance(part, dict) or not any(kind in part for kind in PART_FIELDS):
                return 0.0
    return 0.95
