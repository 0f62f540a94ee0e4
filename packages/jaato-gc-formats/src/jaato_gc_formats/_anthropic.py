"""The format of Anthropic's Messages API."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc import FunctionCall, GCPolicy, InlineData, Message, Part, Role, ToolResult
from jaato_gc.plugin import as_text
from jaato_gc_formats._anthropic_blocks import (
    FOREIGN_BLOCKS,
    binds_thoughts,
    content_blocks,
    is_compaction,
)
from jaato_gc_formats._anthropic_instructions import policy_of
from jaato_gc_formats._anthropic_rules import (
    MAX_BREAKPOINTS,
    count_breakpoints,
    item_refusals,
    refusals,
)
from jaato_gc_formats._anthropic_server_tools import bonds_of
from jaato_gc_formats._anthropic_stream import joined
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_formats._bound_thoughts import (
    View,
    has_unknown_views,
    remember_view,
    remember_views,
    with_valid_thoughts,
)
from jaato_gc_formats._call_ids import with_call_ids
from jaato_gc_formats._history import History
from jaato_gc_formats._marks import count_marks, with_part_extra
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import (
    INSIDE,
    flatten,
    group_results,
    is_inside,
    unflatten,
    with_attachments,
)
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
    unmarked,
    without,
)

ROLES = {"user": Role.USER, "assistant": Role.MODEL, "system": Role.SYSTEM}
ROLE_NAMES = {
    Role.USER: "user", Role.TOOL: "user", Role.MODEL: "assistant", Role.SYSTEM: "system",
}  # fmt: skip
MARK = "cache_control"
TEXT = "text"
"""Kept in ``extra`` for content that was a string instead of a list of blocks."""
VALUE = "value"
"""Kept in ``extra`` for the input of a call that was not an object."""
ABSENT = "absent"
"""Kept in ``extra`` for a result without content."""
SOURCES = {"base64": "data", "url": "url", "file": "file_id"}
"""The field with the content or its address, for each type of source."""
OWN_BLOCKS = {
    "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document",
    "server_tool_use", "search_result",
}  # fmt: skip
"""Types of blocks that only Anthropic's messages contain."""


class AnthropicMessages(ApiFormat):
    """The fields ``messages`` and ``system`` of ``POST /v1/messages``."""

    name = "anthropic"
    summary = "Anthropic Messages"
    items_key = "messages"
    system_keys = ("system",)
    output_keys = ("max_tokens",)
    mark_field = MARK
    input_usage = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    output_usage = "output_tokens"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if not isinstance(first, dict) or not isinstance(first.get("messages"), list):
            return _looks_like_messages(records)
        score = _looks_like_messages(first["messages"])
        tools = [tool for tool in first.get("tools") or () if isinstance(tool, dict)]
        own = "system" in first or any("input_schema" in tool for tool in tools)
        return max(score, 0.9) if score and own else score

    # --- reading ---

    def to_history(self, data: Any) -> History:
        """Reads a request or a list of messages into a history.

        Answers with thoughts remember the request that they are in if its model binds thoughts.
        """
        history = super().to_history(data)
        request = history.request
        if request is None or not self.has_unknown_views(history, request):
            return history
        return History(
            self.remember_views(history, self.from_messages(history, request)), self.name, request
        )

    def read_item(self, item: Fields) -> Message:
        fields = without(item, "role", "content")
        given = _blocks(item.get("content"))
        parts = [part for block in given for part in _read_block(block)]
        name = item.get("role")
        role = ROLES.get(name or "", Role.USER)
        if name not in ("user", "assistant"):
            fields["role"] = name
        if parts and all(part.function_response or is_inside(part) for part in parts):
            role = Role.TOOL
        blocks = [block for block in given if isinstance(block, dict)]
        message = self._message(role, parts, fields, item.get("content"))
        if role is Role.SYSTEM:
            return replace(message, keeps_place=True, policy=policy_of(blocks))
        if any(map(is_compaction, blocks)):  # it stands for all that was said before it
            message = replace(message, policy=GCPolicy.LOCKED)
        return replace(message, bonds=bonds_of(blocks))

    def read_system(self, value: Any) -> Message:
        parts = [part for block in _blocks(value) for part in _read_block(block)]
        return self._message(Role.SYSTEM, parts, {}, value)

    def _message(self, role: Role, parts: list[Part], fields: Fields, content: Any) -> Message:
        if isinstance(content, str) and content:
            fields["content"] = TEXT
        extra = message_extra(self.name, fields, parts)
        if role is Role.TOOL:  # it is written as a message of its own: see `write`
            extra = extra or {READ_AS: self.name}
        return Message(role, parts, extra=extra)

    def answer_items(self, answer: Any) -> list[Any]:
        data = plain(answer)
        if not isinstance(data, dict) or "role" not in data:
            raise self.no_answer(data)
        if data["role"] != "assistant" or isinstance(data.get("content"), str):
            return [answer]
        # The SDK sends back only the fields that the provider has set.
        blocks = [
            {key: value for key, value in plain(block).items() if value is not None}
            for block in data.get("content") or ()
        ]
        return [{"role": "assistant", "content": blocks}] if blocks else []

    def join_events(self, events: Sequence[Any]) -> Fields | None:
        return joined(map(plain, events))

    # --- writing ---

    def write_tool(self, definition: Fields) -> Fields:
        schema = definition["parameters"]
        return {**without(definition, "parameters"), "input_schema": schema}

    def stands_beside(self, message: Message) -> bool:
        among = own_fields(message, self.name).get("role") == "system"
        return message.role is Role.SYSTEM and not among

    def write(self, messages: Iterable[Message]) -> list[Any]:
        """Converts messages to items.

        Parallel results that came in several user messages stay in several. Those of other
        formats are written as one message, as the documentation of parallel tool use recommends.
        """
        items: list[Any] = []
        for run in group_results(with_call_ids(messages, self.name)):
            if len(run) == 1 or all(map(self._has_read, run)):
                for message in run:
                    original = original_items(message, self.name)
                    items += self.write_item(message) if original is None else original
            else:
                items.append(
                    _merge_results([item for each in run for item in self.write_item(each)])
                )
        return [*items[:-1], *map(_without_trailing_whitespace, items[-1:])]

    def _has_read(self, message: Message) -> bool:
        return (message.extra or {}).get(READ_AS) == self.name

    def write_item(self, message: Message) -> list[Fields]:
        fields = own_fields(message, self.name)
        shape = fields.pop("content", None)
        content = self._write_parts(message)
        if not content:
            return []
        item = {"role": ROLE_NAMES[message.role], "content": _restore_shape(content, shape)}
        return [{**item, **fields}]

    def write_system(self, messages: list[Message], key: str) -> Any:  # noqa: ARG002
        shapes = [own_fields(message, self.name).get("content") for message in messages]
        content = [block for message in messages for block in self._write_parts(message)]
        return _restore_shape(content, shapes[0])

    def _write_parts(self, message: Message) -> list[Fields]:
        results: list[Fields] = []
        rest: list[Fields] = []
        for part, attachments in with_attachments(message):
            extra = own_extra(message, part, self.name)
            if answer := part.function_response:
                kept = extra.pop("content", None)
                block = _write_result(answer, extra)
                if kept != ABSENT or answer.result or attachments:
                    block["content"] = unflatten(
                        answer.result,
                        kept,
                        attachments,
                        lambda each: _write_block(each, own_extra(message, each, self.name)),
                        lambda text: {"type": "text", "text": text.text},
                    )
                results.append(block)
            elif written := _write_block(part, extra):
                rest.append(written)
        return results + rest  # the API requires results to come first

    def from_messages(self, messages: Sequence[Message], request: Fields | None) -> Any:
        """Returns the messages as a list of items, or as ``request`` with its messages replaced."""
        written = super().from_messages(messages, request)
        return written if request is None else self.with_valid_thoughts(written, messages)[0]

    def check_items(self, items: Sequence[Any]) -> Iterator[Refusal]:
        return item_refusals(items)

    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
        return refusals(request, before)

    # --- cache marks ---

    def with_mark(self, message: Message, mark: Any) -> Message | None:
        if "clear_at" in own_fields(message, self.name):
            return None
        for index in reversed(range(len(message.parts))):
            part = message.parts[index]
            extra = own_extra(message, part, self.name)
            is_result = part.function_response is not None
            if part.thought is not None or OPAQUE in extra or is_inside(part):
                continue
            if is_result or (message.role is not Role.TOOL and not part.is_empty):
                return with_part_extra(message, index, self.name, {MARK: mark})
        return None

    def within_mark_limit(self, request: Fields) -> Fields:
        excess = count_breakpoints(request) - MAX_BREAKPOINTS
        if excess <= 0:
            return request
        items: list[Any] = []
        for item in request["messages"]:
            fields = plain(item)
            marks = count_marks(fields, MARK)
            if marks and excess > 0:
                item = unmarked(fields)
                excess -= marks
            items.append(item)
        return {**request, "messages": items}

    # --- thoughts ---

    def with_valid_thoughts(
        self, request: Fields, messages: Sequence[Message], *, keep_unknown: bool = True
    ) -> tuple[Fields, View | None]:
        if not binds_thoughts(request.get("model")):
            return request, None
        valid, view = with_valid_thoughts(request, messages, keep_unknown=keep_unknown)
        if valid is not request:
            items = valid["messages"]
            items[-1:] = map(_without_trailing_whitespace, items[-1:])
        return valid, view

    def remember_view(self, messages: Sequence[Message], view: View) -> list[Message]:
        return remember_view(messages, self.write(messages), view)

    def has_unknown_views(self, messages: Sequence[Message], request: Fields) -> bool:
        return binds_thoughts(request.get("model")) and has_unknown_views(messages)

    def remember_views(self, messages: Sequence[Message], request: Fields) -> list[Message]:
        return remember_views(messages, self.with_valid_thoughts(request, messages)[0])


def _merge_results(items: list[Fields]) -> Fields:
    """Merges the results of a turn into one message.

    The API requires them in one message, before all other blocks.
    """
    blocks = [block for item in items for block in content_blocks(item["content"])]
    blocks.sort(key=lambda block: block.get("type") != "tool_result")
    merged: Fields = {}
    for item in items:
        merged |= item
    return {**merged, "content": blocks}


def _without_trailing_whitespace(item: Any) -> Any:
    """Returns the last message as the API accepts it: the model would continue its text."""
    fields = plain(item)
    blocks = content_blocks(fields.get("content"))
    text = blocks[-1].get("text") if blocks and blocks[-1].get("type") == "text" else None
    if fields.get("role") != "assistant" or not text or text == text.rstrip():
        return item
    if isinstance(fields["content"], str):
        return {**fields, "content": text.rstrip()}
    return {**fields, "content": [*blocks[:-1], {**blocks[-1], "text": text.rstrip()}]}


def _restore_shape(content: list[Fields], shape: Any) -> Any:
    if shape == TEXT and len(content) == 1 and set(content[0]) == {"type", "text"}:
        return content[0]["text"]
    return content


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return content_blocks(content)
    return [plain(block) for block in content or ()]


# --- blocks ---


def _read_block(block: Any) -> list[Part]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return [Part(text=block["text"], extra=without(block, "type", "text") or None)]
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        # A thought without extra would look like a thought of another provider.
        return [Part(thought=block["thinking"], extra=without(block, "thinking"))]
    if kind == "redacted_thinking":
        return [Part(thought="", extra=block)]
    if kind == "tool_use":
        return [_read_call(block)]
    if kind == "tool_result":
        return _read_result(block)
    source = block.get("source") if kind == "document" else None
    if isinstance(source, dict) and source.get("type") == "text":
        kept = {**block, "source": without(source, "data")}
        return [Part(text=as_text(source.get("data") or ""), extra=kept)]
    attached = _read_attachment(block) if kind else None
    return [attached or opaque_part(block)]


def _write_block(part: Part, extra: Fields) -> Fields | None:
    """Converts a part to a block; ``None`` if the API would refuse it.

    That is the case for blank texts and for thoughts of other providers.
    """
    if OPAQUE in extra:
        block: Fields = extra[OPAQUE]
        return block
    extra = without(extra, INSIDE)
    if part.function_call:
        return _write_call(part.function_call, extra)
    if part.thought is not None:
        if extra.get("type") == "redacted_thinking":
            return extra
        return {"thinking": part.thought, **extra} if extra.get("signature") else None
    if part.inline_data:
        return _write_attachment(part.inline_data, extra)
    if not part.text or part.text.isspace():
        return None
    if "source" not in extra:
        return {"type": "text", "text": part.text, **extra}
    if extra["source"].get("type") == "text":
        return {**extra, "source": {**extra["source"], "data": part.text}}
    cache = {MARK: extra[MARK]} if MARK in extra else {}
    return {"type": "text", "text": part.text, **cache}  # replaces a removed attachment


def _read_call(block: Fields) -> Part:
    extra = without(block, "type", "id", "name", "input")
    args = block.get("input", {})
    if not isinstance(args, dict):
        args, extra["input"] = {"input": args}, VALUE
    return Part(
        function_call=FunctionCall(block.get("id"), block.get("name") or "", args),
        extra=extra or None,
    )


def _write_call(call: FunctionCall, extra: Fields) -> Fields:
    args = call.args.get("input") if extra.pop("input", None) == VALUE else call.args
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": args, **extra}


def _read_result(block: Fields) -> list[Part]:
    extra = without(block, "type", "tool_use_id", "content")
    attachments: list[Part] = []
    if "content" in block:
        content = block["content"]
        content = [plain(each) for each in content] if isinstance(content, list) else content
        text, kept, attachments = flatten(content, _read_attachment)
    else:
        text, kept = "", {"content": ABSENT}
    answer = ToolResult(block.get("tool_use_id"), "", text, is_error=bool(block.get("is_error")))
    return [Part(function_response=answer, extra={**extra, **kept} or None), *attachments]


def _write_result(answer: ToolResult, extra: Fields) -> Fields:
    block = {"type": "tool_result", "tool_use_id": answer.call_id, **extra}
    if answer.is_error != bool(extra.get("is_error")):
        block["is_error"] = answer.is_error
    return block


def _read_attachment(block: Fields) -> Part | None:
    source = plain(block.get("source"))
    if block.get("type") not in ("image", "document") or not isinstance(source, dict):
        return None
    kind = source.get("type")
    field = SOURCES.get(kind or "")
    if field is None or not isinstance(source.get(field), str):
        return None
    default = "image/*" if block["type"] == "image" else "application/pdf"
    mime_type = source.get("media_type") or default
    if kind == "base64":
        data = InlineData(mime_type, data=source["data"])
    else:
        data = InlineData(mime_type, uri=source[field])
    return Part(inline_data=data, extra={**block, "source": without(source, field)})


def _write_attachment(data: InlineData, extra: Fields) -> Fields:
    if source := extra.get("source"):
        field = SOURCES[source["type"]]
        content = attachment_base64(data) if field == "data" else data.uri
        return {**extra, "source": {**source, field: content}}
    kind = "image" if data.mime_type.startswith("image/") else "document"
    is_refused = kind == "document" and data.mime_type not in ("application/pdf", "application/*")
    if is_refused or (data.uri is None and not data.data):
        return {"type": "text", "text": f"[{data.mime_type} attachment]"}
    if data.uri is None:
        mime_type = data.mime_type.replace("application/*", "application/pdf")
        encoded = {"type": "base64", "media_type": mime_type, "data": attachment_base64(data)}
        return {"type": kind, "source": encoded}
    if not data.uri.startswith(("http://", "https://")):
        return {"type": "text", "text": f"[{data.mime_type} attachment]"}
    return {"type": kind, "source": {"type": "url", "url": data.uri}}


def _looks_like_messages(messages: Sequence[Any]) -> float:
    """Returns the confidence that a list consists of Anthropic's messages."""
    if not messages:
        return 0.0
    score = 0.5
    for message in map(plain, messages):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            return 0.0
        content = message.get("content")
        if not isinstance(content, str | list) or message.get("tool_calls"):
            return 0.0
        kinds = {block.get("type") for block in content_blocks(content)}
        if kinds & OWN_BLOCKS:
            score = 0.95
        elif kinds & FOREIGN_BLOCKS or None in kinds:
            return 0.0
    return score
