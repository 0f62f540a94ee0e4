"""The format of OpenAI Chat Completions and of compatible servers.

Limits of this API compared to other providers:

- A result is text. Images in the results of another provider are written to a user message after
  all consecutive results. Images that were read from this format stay in the result, because some
  servers accept them.
- A result can't be marked as an error. Its text usually says so.
- Only user messages contain images and files. In other messages a note replaces them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._openai_chat_content import (
    FOREIGN_CONTENT,
    is_plain_text,
    mistyped_field,
    read_attachment,
    read_call,
    read_content,
    user_message,
    write_call,
    write_content,
)
from jaato_gc_formats._openai_chat_rules import item_refusals, refusals
from jaato_gc_formats._openai_chat_stream import joined
from jaato_gc_formats._openai_common import (
    LEGACY,
    MARK,
    with_content_mark,
    with_missing_ids,
    without_parsed,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import (
    INSIDE,
    flatten,
    group_results,
    unflatten,
    with_attachments,
)
from jaato_gc_formats._wire import (
    Fields,
    dump_arguments,
    field_of,
    message_extra,
    original_items,
    own_extra,
    own_fields,
    parse_arguments,
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
"""Fields in which other servers than OpenAI's return the model's reasoning."""
DIALECT_CONFIDENCE = 0.6
"""Confidence in messages that an agent has extended or shortened."""
SPOKEN = "[spoken answer]"
"""Text of a spoken answer without a transcript."""
AUDIO = "audio"
"""Kept in ``extra`` for a spoken answer: its id."""
LIST = "list"
"""Kept in ``extra`` for content that was a list of blocks."""


class OpenAIChat(ApiFormat):
    """The field ``messages`` of ``POST /v1/chat/completions``."""

    name = "openai-chat"
    summary = "OpenAI Chat Completions messages"
    items_key = "messages"
    output_keys = ("max_completion_tokens", "max_tokens")
    mark_field = MARK
    input_usage = ("prompt_tokens",)
    output_usage = "completion_tokens"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if isinstance(first, dict) and isinstance(first.get("messages"), list):
            is_anthropic = any(key in first for key in ("system", "anthropic_version"))
            return _looks_like_chat(first["messages"]) * (0.5 if is_anthropic else 1.0)
        return _looks_like_chat(records)

    # --- reading ---

    def read_item(self, item: Fields) -> Message:
        if wrong := mistyped_field(item):
            raise FormatError(f"the field {wrong!r} of a message has an invalid type")
        item = without_parsed(item)
        role = ROLES.get(item.get("role", ""), Role.USER)
        taken = ("tool_call_id",) if role is Role.TOOL else ("tool_calls", "function_call")
        fields = without(item, "role", "content", *taken)
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
            parts += map(read_content, content)
        elif content:
            parts.append(Part(text=str(content)))
        elif "content" in item:
            fields["content"] = content
        if isinstance(item.get("audio"), dict):
            parts.append(_read_spoken(fields.pop("audio")))
        if isinstance(item.get("refusal"), str):
            parts.append(Part(text=fields.pop("refusal"), extra={"refusal": True}))
        parts += map(read_call, item.get("tool_calls") or ())
        if "tool_calls" in item and not item["tool_calls"]:
            fields["tool_calls"] = item["tool_calls"]
        if legacy := item.get("function_call"):
            args, kept = parse_arguments(legacy.get("arguments"))
            call = FunctionCall(None, legacy.get("name") or "", args)
            parts.append(Part(function_call=call, extra={LEGACY: True, **kept}))
        elif "function_call" in item:
            fields["function_call"] = legacy
        return Message(role, parts, extra=message_extra(self.name, fields, parts))

    def _read_result(self, item: Fields, fields: Fields) -> Message:
        text, kept, attachments = flatten(item.get("content"), read_attachment)
        if item.get("role") == "function":
            answer = ToolResult(None, item.get("name") or "", text)
        else:
            answer = ToolResult(item.get("tool_call_id"), item.get("name") or "", text)
        parts = [Part(function_response=answer, extra=kept or None), *attachments]
        return Message(Role.TOOL, parts, extra=message_extra(self.name, fields, parts))

    def answer_items(self, answer: Any) -> list[Any]:
        data = plain(answer)
        if isinstance(data, dict) and "role" in data:
            return [answer]
        choices = data.get("choices") if isinstance(data, dict) else None
        if not isinstance(choices, list) or (not choices and data.get("error")):
            raise self.no_answer(data)
        said = [plain(choice).get("message") for choice in choices[:1]]
        if not all(isinstance(message, dict) for message in said):
            raise self.no_answer(data)
        # Some servers return an empty list of calls, which OpenAI refuses in a request.
        return [
            without(message, "tool_calls") if message.get("tool_calls") == [] else message
            for message in map(without_parsed, said)
        ]

    def join_events(self, events: Sequence[Any]) -> Fields | None:
        return joined(events)

    def _with_origin(self, message: Message, *items: Any) -> Message:
        # A spoken answer is written again: it is sent back as its id, without the sound.
        return message if any(map(_has_sound, items)) else super()._with_origin(message, *items)

    # --- writing ---

    def write_tool(self, definition: Fields) -> Fields:
        return {"type": "function", "function": definition}

    def write(self, messages: Iterable[Message]) -> list[Any]:
        items: list[Any] = []
        for run in group_results(with_missing_ids(messages, self.name)):
            deferred: list[Fields] = []  # blocks that must follow all results
            for message in run:
                original = original_items(message, self.name)
                if original is not None:
                    items.extend(original)
                elif message.function_responses:
                    items += self._write_results(message, deferred)
                else:
                    items += self.write_item(message)
            items += user_message(deferred)
        return items

    def write_item(self, message: Message) -> list[Fields]:
        if message.function_responses:
            deferred: list[Fields] = []
            return self._write_results(message, deferred) + user_message(deferred)
        fields = own_fields(message, self.name)
        item: Fields = {"role": fields.pop("role", ROLE_NAMES[message.role])}
        original_content = fields.pop("content", ...)
        content: list[Fields] = []
        calls: list[Fields] = []
        for part in message.parts:
            extra = own_extra(message, part, self.name)
            if call := part.function_call:
                if extra.pop(LEGACY, False):
                    text = dump_arguments(call.args, extra.get("arguments"))
                    fields["function_call"] = {"name": call.name, "arguments": text}
                else:
                    calls.append(write_call(call, extra))
            elif part.thought is not None:
                if field := extra.get("field"):
                    fields[field] = part.thought
            elif extra.get("refusal") is True:
                fields["refusal"] = part.text
            elif AUDIO in extra:
                fields["audio"] = extra[AUDIO]
            else:
                content.append(write_content(part, extra, message.role))
        if original_content == LIST or (content and not is_plain_text(content)):
            item["content"] = content
        elif content:
            item["content"] = content[0]["text"]
        elif original_content is not ...:
            item["content"] = original_content
        elif not calls and not fields:
            return []  # only thoughts of another provider, which this API can't represent
        if calls:
            item["tool_calls"] = calls
        return [{**item, **fields}]

    def _write_results(self, message: Message, deferred: list[Fields]) -> list[Fields]:
        """Returns the results of a message as items.

        Args:
            message: The message.
            deferred: Receives the blocks that a result can't contain.
        """
        items: list[Fields] = []
        fields = own_fields(message, self.name)
        for part, attached in with_attachments(message):
            if answer := part.function_response:
                content = self._result_content(message, part, attached, deferred)
                legacy = fields.get("role") == "function"
                address = {} if legacy else {"tool_call_id": answer.call_id}
                items.append({"role": "tool", **address, "content": content, **fields})
            elif part.thought is None and not part.function_call:
                extra = own_extra(message, part, self.name)
                deferred.append(write_content(part, extra, Role.USER))
        return items

    def _result_content(
        self, message: Message, part: Part, attached: list[Part], deferred: list[Fields]
    ) -> Any:
        inside: list[Part] = []
        for each in attached:
            if each.inline_data and not own_extra(message, each, self.name):
                block = write_content(each, {}, Role.USER)
                if block["type"] != "text":
                    deferred.append(block)
                    continue
            inside.append(each)
        return unflatten(
            part.function_response and part.function_response.result,
            own_extra(message, part, self.name).get("content"),
            inside,
            lambda each: write_content(
                each, without(own_extra(message, each, self.name), INSIDE), message.role
            ),
            lambda each: {"type": "text", "text": each.text},
        )

    def with_mark(self, message: Message, mark: Any) -> Message | None:
        is_legacy = own_fields(message, self.name).get("role") == "function"
        if message.role is Role.MODEL or is_legacy:
            return None
        return with_content_mark(message, mark, self.name, "text")

    def check_items(self, items: Sequence[Any]) -> Iterator[Refusal]:
        return item_refusals(items)

    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:  # noqa: ARG002
        return refusals(request)


def _read_spoken(audio: Fields) -> Part:
    """Converts a spoken answer to its transcript."""
    return Part(text=audio.get("transcript") or SPOKEN, extra={AUDIO: {"id": audio.get("id")}})


def _has_sound(item: Any) -> bool:
    audio = plain(field_of(item, "audio"))
    return isinstance(audio, dict) and audio.keys() != {"id"}


def _looks_like_chat(messages: Sequence[Any]) -> float:
    """Returns the confidence that a list consists of chat messages."""
    score = 0.55 if messages else 0.0
    for message in map(plain, messages):
        if not isinstance(message, dict) or not _is_chat_message(message):
            return 0.0
        if _is_dialect(message):
            return DIALECT_CONFIDENCE
        if message.get("tool_calls") or message["role"] in ("tool", "developer", "function"):
            score = 0.95
        elif message["role"] == "system":
            score = max(score, 0.6)
    return score


def _is_chat_message(message: Fields) -> bool:
    content = message.get("content")
    if mistyped_field(message) or message.get("role") not in ROLES or "type" in message:
        return False
    if not isinstance(content, str | list | None):
        return False
    if "content" not in message and message["role"] != "assistant":
        return False
    blocks = content if isinstance(content, list) else ()
    kinds = [block.get("type") for block in blocks if isinstance(block, dict)]
    return not any(kind in FOREIGN_CONTENT for kind in kinds)


def _is_dialect(message: Fields) -> bool:
    if message["role"] == "tool" and "tool_call_id" not in message:
        return True
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
    if any("function" not in call and "custom" not in call for call in calls):
        return True
    return "agent" in message or "message_type" in message
