"""OpenAI Chat Completions, and the many servers that speak it.

What other providers allow and this API does not:

- A result is text. Images in the results of another provider follow in a message of the user's,
  behind all the results that stand together. Those that were read from here stay where they were:
  some servers take them.
- A result can't be marked as an error. Its text has to say so, and usually does.
- Only the user's messages hold images and files; elsewhere a note stands for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._openai_chat_content import (
    is_plain_text,
    mistyped_field,
    read_attachment,
    read_call,
    read_content,
    said_by_user,
    write_call,
    write_content,
)
from jaato_gc_formats._openai_chat_rules import refusals
from jaato_gc_formats._openai_common import (
    LEGACY,
    with_missing_ids,
    without_parsed,
)
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import (
    INSIDE,
    flatten,
    runs_of_results,
    unflatten,
    with_attachments,
)
from jaato_gc_formats._wire import (
    Fields,
    arguments,
    arguments_text,
    marked,
    own_extra,
    own_fields,
    plain,
    untouched_items,
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
OTHERS_CONTENT = (
    None, "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document",
    "input_text", "output_text", "input_image", "input_file",
)  # fmt: skip
"""Blocks that only other APIs have: Anthropic's, and those of OpenAI Responses."""
DIALECT = 0.6
"""How sure it is of messages that others have given fields of their own, or have left some out."""
LIST = "list"
"""Kept in the place of content that was a list of parts."""


class OpenAIChat(ApiFormat):
    """``messages`` of ``POST /v1/chat/completions``."""

    name = "openai-chat"
    summary = "OpenAI Chat Completions messages"
    items_key = "messages"
    input_usage = ("prompt_tokens",)
    output_usage = "completion_tokens"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if isinstance(first, dict) and isinstance(first.get("messages"), list):
            beside = any(key in first for key in ("system", "anthropic_version"))
            return _looks_like_chat(first["messages"]) * (0.5 if beside else 1.0)
        return _looks_like_chat(records)

    # --- reading ---

    def read_item(self, item: Fields) -> Message:
        if wrong := mistyped_field(item):
            raise FormatError(f"{wrong!r} of a message is of no type that it can have")
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
        if isinstance(item.get("refusal"), str):
            parts.append(Part(text=fields.pop("refusal"), extra={"refusal": True}))
        parts += map(read_call, item.get("tool_calls") or ())
        if "tool_calls" in item and not item["tool_calls"]:
            fields["tool_calls"] = item["tool_calls"]
        if legacy := item.get("function_call"):
            args, kept = arguments(legacy.get("arguments"))
            call = FunctionCall(None, legacy.get("name") or "", args)
            parts.append(Part(function_call=call, extra={LEGACY: True, **kept}))
        elif "function_call" in item:
            fields["function_call"] = legacy
        return Message(role, parts, extra=marked(self.name, fields, parts))

    def _read_result(self, item: Fields, fields: Fields) -> Message:
        text, kept, attachments = flatten(item.get("content"), read_attachment)
        if item.get("role") == "function":
            answer = ToolResult(None, item.get("name") or "", text)
        else:
            answer = ToolResult(item.get("tool_call_id"), item.get("name") or "", text)
        parts = [Part(function_response=answer, extra=kept or None), *attachments]
        return Message(Role.TOOL, parts, extra=marked(self.name, fields, parts))

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
        # Some servers say that there are no calls with a list that OpenAI refuses to see.
        return [
            without(message, "tool_calls") if message.get("tool_calls") == [] else message
            for message in map(without_parsed, said)
        ]

    # --- writing ---

    def write(self, messages: Iterable[Message]) -> list[Any]:
        items: list[Any] = []
        for run in runs_of_results(with_missing_ids(messages, self.name)):
            shown: list[Fields] = []  # what results can't hold, and must not stand between them
            for message in run:
                untouched = untouched_items(message, self.name)
                if untouched is not None:
                    items.extend(untouched)
                elif message.function_responses:
                    items += self._write_results(message, shown)
                else:
                    items += self.write_item(message)
            items += said_by_user(shown)
        return items

    def write_item(self, message: Message) -> list[Fields]:
        if message.function_responses:
            shown: list[Fields] = []
            return self._write_results(message, shown) + said_by_user(shown)
        fields = own_fields(message, self.name)
        item: Fields = {"role": fields.pop("role", ROLE_NAMES[message.role])}
        was = fields.pop("content", ...)
        content: list[Fields] = []
        calls: list[Fields] = []
        for part in message.parts:
            extra = own_extra(message, part, self.name)
            if call := part.function_call:
                if extra.pop(LEGACY, False):
                    text = arguments_text(call.args, extra.get("arguments"))
                    fields["function_call"] = {"name": call.name, "arguments": text}
                else:
                    calls.append(write_call(call, extra))
            elif part.thought is not None:
                if field := extra.get("field"):
                    fields[field] = part.thought
            elif extra.get("refusal") is True:
                fields["refusal"] = part.text
            else:
                content.append(write_content(part, extra, message.role))
        if was == LIST or (content and not is_plain_text(content)):
            item["content"] = content
        elif content:
            item["content"] = content[0]["text"]
        elif was is not ...:
            item["content"] = was
        elif not calls and not fields:
            return []  # it held nothing but another provider's thoughts
        if calls:
            item["tool_calls"] = calls
        return [{**item, **fields}]

    def _write_results(self, message: Message, shown: list[Fields]) -> list[Fields]:
        """The results of a message; ``shown`` gets what no result can hold."""
        items: list[Fields] = []
        fields = own_fields(message, self.name)
        for part, attached in with_attachments(message):
            if answer := part.function_response:
                content = self._result_content(message, part, attached, shown)
                legacy = fields.get("role") == "function"
                address = {} if legacy else {"tool_call_id": answer.call_id}
                items.append({"role": "tool", **address, "content": content, **fields})
            elif part.thought is None and not part.function_call:
                extra = own_extra(message, part, self.name)
                shown.append(write_content(part, extra, Role.USER))
        return items

    def _result_content(
        self, message: Message, part: Part, attached: list[Part], shown: list[Fields]
    ) -> Any:
        inside: list[Part] = []
        for each in attached:
            if each.inline_data and not own_extra(message, each, self.name):
                block = write_content(each, {}, Role.USER)
                if block["type"] != "text":
                    shown.append(block)
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

    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:  # noqa: ARG002
        return refusals(request)


def _looks_like_chat(messages: Sequence[Any]) -> float:
    """How sure it is that a list is of chat messages, and of no dialect that others read better."""
    score = 0.55 if messages else 0.0
    for message in map(plain, messages):
        if not isinstance(message, dict) or not _is_chat_message(message):
            return 0.0
        if _is_dialect(message):
            return DIALECT
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
    return not any(kind in OTHERS_CONTENT for kind in kinds)


def _is_dialect(message: Fields) -> bool:
    if message["role"] == "tool" and "tool_call_id" not in message:
        return True
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
    if any("function" not in call and "custom" not in call for call in calls):
        return True
    return "agent" in message or "message_type" in message
