"""The format of OpenAI Responses, in which several items form one response of the model.

How items are converted to messages:

- All items of one response are one message. A reasoning item and the items after it are bound to
  each other: the API refuses one without the other. Core keeps or removes whole messages, so it
  can't separate them. Consecutive responses without an item of the client between them can't be
  distinguished, so they are one message too.
- A call that the client answers is a call, and its output is a message. A call that OpenAI runs (a
  web search, a hosted shell) is part of the model's message, with its output.
- Calls can be shortened, even next to encrypted reasoning. They are bound to it but not signed: in
  a recorded exchange, the API accepted a call with changed arguments after its encrypted reasoning.
  The reasoning itself is a thought, which core never changes.
- A compaction item replaces all earlier items, and only OpenAI can read it. It is a locked system
  message: strategies keep it in place, and messages before and after it can be removed.
- A program is code that OpenAI runs. Its calls of the client's tools and its output come in later
  items; all of them are bound to it. That the API wants them together rests on the SDK alone.
- Reasoning and calls that are appended one by one are several messages. Core keeps the messages of
  the model together that follow its thoughts.
- The tools that a search found are available as long as its output is in the history. The output is
  preservable and is not shortened. The same applies to ``additional_tools``, a system item.
- The content of a reference to an item on the server is unknown. It is locked, and so are later
  outputs without a visible call.
- Encrypted content is not counted as text. `ProviderCounter` estimates it by its length.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc import GCPolicy, InlineData, Message, Part, Role
from jaato_gc_formats._api_format import ApiFormat, fill_tool_names
from jaato_gc_formats._errors import FormatError, reading
from jaato_gc_formats._openai_common import (
    MARK,
    mistyped,
    with_content_mark,
    with_missing_ids,
    without_parsed,
)
from jaato_gc_formats._openai_responses_calls import (
    ITEM,
    read_answer,
    read_call,
    write_answer,
    write_call,
)
from jaato_gc_formats._openai_responses_content import (
    read_block,
    readable,
    text_type,
    write_block,
)
from jaato_gc_formats._openai_responses_kinds import (
    ANSWERS,
    ASSISTANT,
    COMPACTIONS,
    PROGRAM,
    PROGRAM_OUTPUT,
    RESULTS,
    TYPES,
    are_items,
    is_by_server,
    is_reference,
    looks_like_items,
    program_of,
    role_of,
)
from jaato_gc_formats._openai_responses_rules import item_refusals, refusals
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._result_content import with_attachments
from jaato_gc_formats._wire import (
    OPAQUE,
    READ_AS,
    Fields,
    attachment_base64,
    field_of,
    message_extra,
    opaque_part,
    original_items,
    own_extra,
    own_fields,
    plain,
    plain_dict,
    without,
)

ROLE_NAMES = {Role.SYSTEM: "system", Role.USER: "user", Role.MODEL: ASSISTANT, Role.TOOL: "user"}
WHOLE = "whole_item"
"""Key of ``extra`` under which a part keeps its whole item."""
IMAGE = "image_item"
"""Key of ``extra`` under which a generated image keeps the other fields of its item."""
LIST = "list"
"""Key of ``extra`` that marks the first part of a message whose content was a list."""
BESIDE = "beside"
"""Key of ``extra`` that marks a message read from the request's ``instructions``."""
MARKED_KINDS = {None, "message", "function_call_output", "custom_tool_call_output"}
"""Types of items whose blocks may have cache marks."""
COMPACTED = "[earlier conversation, compacted by OpenAI; only OpenAI can read it]"
REFUSED_WHEN_EMPTY = ("status", "encrypted_content", "content", "phase", "namespace")


class OpenAIResponses(ApiFormat):
    """The field ``input`` of ``POST /v1/responses``."""

    name = "openai-responses"
    summary = "OpenAI Responses items"
    items_key = "input"
    system_keys = ("instructions",)
    stored_keys = ("previous_response_id", "conversation")
    output_keys = ("max_output_tokens",)
    mark_field = MARK
    input_usage = ("input_tokens",)
    output_usage = "output_tokens"

    def recognize(self, records: Sequence[Any]) -> float:
        first = records[0] if records else None
        if isinstance(first, dict) and "input" in first and "messages" not in first:
            items = first["input"]
            if isinstance(items, str):  # many data sets have a field "input" too
                return 0.6 if "model" in first else 0.0
            return max(looks_like_items(items), 0.7) if are_items(items) else 0.0
        return looks_like_items(records) if are_items(records) else 0.0

    # --- reading ---

    def read(self, items: Iterable[Any], names: dict[str, str] | None = None) -> Iterator[Message]:
        """Converts items to messages, one at a time. A response becomes one message.

        Args:
            items: The provider's items: plain data or objects of its SDK.
            names: Tool names by call id, from items that were read earlier. Updated in place.
        """
        names = {} if names is None else names
        has_references = False
        for group in self._grouped(items):
            with reading("an item"):
                message = fill_tool_names(self._message([item for _, item in group]), names)
            has_references |= any(is_reference(item) for _, item in group)
            if has_references and any(
                answer.call_id not in names for answer in message.function_responses
            ):
                message = replace(message, policy=GCPolicy.LOCKED)
            yield self._with_origin(message, *(given for given, _ in group))

    def _grouped(self, items: Iterable[Any]) -> Iterator[list[tuple[Any, Fields]]]:
        """Yields groups of items that form one message, each item as given and as plain data."""
        run: list[tuple[Any, Fields]] = []
        by_server: set[Any] = set()
        for position, given in enumerate(items):
            item = plain_dict(given, f"item {position}")
            if wrong := mistyped(item, TYPES):
                raise FormatError(f"item {position}: the field {wrong!r} has an invalid type")
            if item is not given:
                item = without_parsed(item)
            is_models = role_of(item) is Role.MODEL or (
                item.get("type") in RESULTS and item.get("call_id") in by_server
            )
            if is_models:
                run.append((given, item))
                if is_by_server(item):
                    by_server.add(item.get("call_id"))
                continue
            if run:
                yield run
                run, by_server = [], set()
            yield [(given, item)]
        if run:
            yield run

    def read_item(self, item: Fields) -> Message:
        return self._message([item])

    def _message(self, items: list[Fields]) -> Message:
        role = role_of(items[0])
        parts = [part for item in items for part in _read_parts(item, role)]
        extra = message_extra(self.name, {}, parts)
        return Message(role, parts, policy=_policy(items), extra=extra, bonds=_bonds(items))

    def read_system(self, value: Any) -> Message:
        part = Part(text=value) if isinstance(value, str) else opaque_part(value)
        return Message(Role.SYSTEM, [part], extra={READ_AS: self.name, BESIDE: True})

    def answer_items(self, answer: Any) -> list[Any]:
        data = plain(answer)
        items = data
        if isinstance(data, dict):
            if data.get("type", "error") != "error" or "role" in data:
                return [answer]
            items = data.get("output")
            if not items and data.get("error"):
                raise self.no_answer(data)
        if not isinstance(items, list):
            raise self.no_answer(data)
        return [_as_input(plain_dict(item, "an item of the answer")) for item in items]

    def join_events(self, events: Sequence[Any]) -> Any:
        for event in events:
            kind = field_of(event, "type")
            if kind in ("response.completed", "response.incomplete"):
                return field_of(event, "response")
            if kind == "response.failed":
                failed = plain_dict(field_of(event, "response"), "the response")
                raise self.no_answer({"error": failed.get("error") or "the response failed"})
            if kind == "error":
                raise self.no_answer({"error": plain(event)})
        return None

    # --- writing ---

    def write_tool(self, definition: Fields) -> Fields:
        # In strict mode, which is the default here, every argument is required.
        return {"type": "function", "strict": False, **definition}

    def from_messages(self, messages: Sequence[Message], request: Fields | None) -> Any:
        """Returns the messages as a list of items, or as ``request`` with its items replaced."""
        written = super().from_messages(messages, request)
        text = (request or {}).get(self.items_key)
        if isinstance(text, str) and written[self.items_key] == [{"role": "user", "content": text}]:
            written[self.items_key] = text
        return written

    def stands_beside(self, message: Message) -> bool:
        """Returns whether a message was read from ``instructions``.

        Other system messages are items.
        """
        return bool(own_fields(message, self.name).get(BESIDE))

    def write_system(self, messages: list[Message], key: str) -> Any:  # noqa: ARG002
        if len(messages) == 1:
            extra = own_extra(messages[0], messages[0].parts[0], self.name)
            if OPAQUE in extra:
                return extra[OPAQUE]
        return "\n\n".join(message.text for message in messages)

    def write(self, messages: Iterable[Message]) -> list[Any]:
        items: list[Any] = []
        answers: dict[str | None, str] = {}
        for message in with_missing_ids(messages, self.name):
            for part in message.parts:
                if part.function_call:
                    kind = own_extra(message, part, self.name).get(ITEM, {}).get("type", "")
                    answers[part.function_call.id] = ANSWERS.get(kind, f"{kind}_output")
            original = original_items(message, self.name)
            items.extend(self._write(message, answers) if original is None else original)
        return items

    def write_item(self, message: Message) -> list[Fields]:
        return self._write(message, {})

    def _write(self, message: Message, answers: dict[str | None, str]) -> list[Fields]:
        items: list[Fields] = []
        said: list[Part] = []
        for part, attached in with_attachments(message):
            extra = own_extra(message, part, self.name)
            item = _whole_item(part, extra)
            if answer := part.function_response:
                kind = answers.get(answer.call_id, "")
                kind = kind if kind in RESULTS else "function_call_output"
                item = write_answer(message, part, attached, kind, self.name)
            # A thought without a whole item is from another provider.
            is_content = item is None and part.thought is None
            if said and (ITEM in extra or not is_content):
                items.append(self._write_message(message, said))
                said = []
            if item is not None:
                items.append(item)
            elif is_content:
                said.append(part)
        return [*items, self._write_message(message, said)] if said else items

    def _write_message(self, message: Message, parts: list[Part]) -> Fields:
        extras = [own_extra(message, part, self.name) for part in parts]
        fields = extras[0].pop(ITEM, {"role": ROLE_NAMES[message.role]})
        was_list = extras[0].pop(LIST, False)
        blocks = [
            write_block(part, extra, fields["role"])
            for part, extra in zip(parts, extras, strict=True)
        ]
        first = blocks[0]
        if not was_list and blocks == [
            {"type": text_type(fields["role"]), "text": first.get("text")}
        ]:
            return {**fields, "content": first["text"]}
        return {**fields, "content": blocks}

    def with_mark(self, message: Message, mark: Any) -> Message | None:
        if message.role is Role.MODEL or self.stands_beside(message):
            return None
        extras = [own_extra(message, part, self.name) for part in message.parts]
        kinds = {extra.get(ITEM, {}).get("type") for extra in extras}
        if kinds - MARKED_KINDS or any(WHOLE in extra for extra in extras):
            return None
        return with_content_mark(message, mark, self.name, "input_text")

    def check_items(self, items: Sequence[Any]) -> Iterator[Refusal]:
        return item_refusals(items)

    def check(self, request: Fields, before: Fields | None = None) -> Iterator[Refusal]:
        return refusals(request, before)


def _bonds(items: list[Fields]) -> list[str]:
    """Returns the ids of the programs that a message belongs to with other messages."""
    kinds: dict[str, set[Any]] = {}
    for item in items:
        if program := program_of(item):
            kinds.setdefault(program, set()).add(item.get("type"))
    return [program for program, found in kinds.items() if not found >= {PROGRAM, PROGRAM_OUTPUT}]


def _policy(items: list[Fields]) -> GCPolicy | None:
    kinds = {item.get("type") for item in items}
    if not kinds.isdisjoint(COMPACTIONS) or any(map(is_reference, items)):
        return GCPolicy.LOCKED
    return GCPolicy.PRESERVABLE if "tool_search_output" in kinds else None


def _read_parts(item: Fields, role: Role) -> list[Part]:
    kind = item.get("type")
    if kind in COMPACTIONS:
        return [Part(text=COMPACTED, extra={WHOLE: item})]
    if role is Role.TOOL:
        return read_answer(item)
    if call := read_call(item):
        return [call]
    if kind == "reasoning":
        return [Part(thought=_thought(item), extra={WHOLE: item})]
    if kind == "image_generation_call" and isinstance(item.get("result"), str):
        image = InlineData(f"image/{item.get('output_format') or 'png'}", data=item["result"])
        return [Part(inline_data=image, extra={IMAGE: without(item, "result")})]
    if item.get("type", "message") == "message" and "role" in item:
        return _read_message(item, role)
    return [Part(text=readable(item), extra={WHOLE: item})]


def _read_message(item: Fields, role: Role) -> list[Part]:
    content = item.get("content")
    fields = without(item, "content")
    if isinstance(content, str):
        is_usual = role is not Role.MODEL and fields == {"role": ROLE_NAMES[role]}
        return [Part(text=content, extra=None if is_usual else {ITEM: fields})]
    if not isinstance(content, list) or not content:
        return [Part(text="", extra={WHOLE: item})]
    parts = [read_block(block, str(item["role"])) for block in content]
    parts[0] = replace(parts[0], extra={ITEM: fields, LIST: True, **(parts[0].extra or {})})
    return parts


def _thought(item: Fields) -> str:
    texts = [
        block["text"]
        for field in ("summary", "content")
        for block in (item[field] if isinstance(item.get(field), list) else ())
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return "\n".join(texts)


def _whole_item(part: Part, extra: Fields) -> Fields | None:
    if WHOLE in extra:
        whole: Fields = extra[WHOLE]
        return whole
    if part.function_call:
        return write_call(part.function_call, extra)
    if IMAGE in extra and part.inline_data:
        return {**extra[IMAGE], "result": attachment_base64(part.inline_data)}
    return None


def _as_input(item: Fields) -> Fields:
    """Returns an item of a response without the fields that the API refuses in a request."""
    item = without_parsed(without(item, "created_by"))
    if item.get("type") == "reasoning":
        item.pop("status", None)
    if isinstance(action := item.get("action"), dict):
        item["action"] = {name: value for name, value in action.items() if value is not None}
    empty = [name for name in REFUSED_WHEN_EMPTY if name in item and item[name] is None]
    return without(item, *empty)
