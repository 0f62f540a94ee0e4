"""Reads and writes the calls of OpenAI Responses that the client answers, and the answers."""

from dataclasses import replace
from typing import Any

from jaato_gc import FunctionCall, Message, Part, ToolResult
from jaato_gc.plugin import as_text
from jaato_gc_formats._openai_common import sendable_url
from jaato_gc_formats._openai_responses_content import read_attachment, write_block
from jaato_gc_formats._openai_responses_kinds import (
    ARGUMENTS,
    CALLS,
    RESULTS,
    id_field,
    is_by_server,
)
from jaato_gc_formats._result_content import INSIDE, flatten, unflatten
from jaato_gc_formats._wire import (
    OPAQUE,
    Fields,
    dump_arguments,
    own_extra,
    parse_arguments,
    without,
)

ITEM = "item"
"""Key of ``extra`` under which the first part of an item keeps the item's other fields."""

SYNTHETIC_ANSWER_FIELDS: dict[str, Fields] = {
    "apply_patch_call_output": {"status": "failed"},
    "tool_search_output": {"execution": "client", "status": "completed"},
    "mcp_approval_response": {"approve": False},
}
"""Required fields of an answer that core created for a call without one."""
SMALLEST_IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEA"
    "HLCMmQAAAABJRU5ErkJggg=="
)
"""Replaces a screenshot that was removed, because the API requires an image."""


def read_call(item: Fields) -> Part | None:
    """Converts a call that the client answers to a part; ``None`` for any other item."""
    kind = item.get("type")
    where = id_field(item)
    if kind not in CALLS or is_by_server(item) or not isinstance(item.get(where), str):
        return None
    kept: Fields = {}
    if kind in ARGUMENTS:
        args = {name: item[name] for name in ARGUMENTS[kind] if name in item}
        fields = without(item, where, *ARGUMENTS[kind])
        name = item.get("name") or kind.removesuffix("_call")
    else:
        if not isinstance(item.get("name"), str):
            return None
        name = item["name"]
        fields = without(item, where, "arguments")
        if item.get("arguments") is None:
            args, fields = {}, without(item, where)
        else:
            args, kept = parse_arguments(item["arguments"])
    call = FunctionCall(item[where], str(name), args)
    return Part(function_call=call, extra={ITEM: fields, **kept})


def write_call(call: FunctionCall, extra: Fields) -> Fields:
    """Converts a call to an item. A call of another provider becomes a function call."""
    fields = extra.get(ITEM, {"type": "function_call", "name": call.name})
    item: Fields = {id_field(fields): call.id}
    if fields["type"] in ARGUMENTS:
        item |= call.args
    else:
        item["arguments"] = dump_arguments(call.args, extra.get("arguments"))
    return {**item, **fields}


def read_answer(item: Fields) -> list[Part]:
    """Converts an answer to parts: the result and its attachments."""
    kind = item["type"]
    field = RESULTS[kind]
    value = item.get(field)
    extra: Fields = {ITEM: without(item, field)}
    attached: list[Part] = []
    if kind == "tool_search_output":
        # Not part of the result, which may be shortened: the model can call only tools it sees.
        attached = [Part(text=as_text(value), extra={INSIDE: True, OPAQUE: value})]
        value = ""
    elif kind == "computer_call_output" and isinstance(value, dict):
        if screenshot := read_attachment(value):
            attached = [replace(screenshot, extra={INSIDE: True, **(screenshot.extra or {})})]
            value = ""
    elif kind == "shell_call_output":
        last = value[-1] if isinstance(value, list) and value else None
        extra["outcome"] = last.get("outcome") if isinstance(last, dict) else None
    else:
        value, kept, attached = flatten(value, read_attachment)
        extra |= kept
    if field in item and item[field] is None:
        extra[ITEM][field] = None
    failed = item.get("status") == "failed"
    answer = ToolResult(item.get(id_field(item)), "", value, is_error=failed)
    return [Part(function_response=answer, extra=extra), *attached]


def write_answer(message: Message, part: Part, attached: list[Part], kind: str, format: str) -> Any:
    """Converts a result to an item.

    Args:
        message: The message with the result.
        part: The part with the result.
        attached: The parts that belong to the result.
        kind: Type of the item, for a result that was not read from this format.
        format: Name of this format.
    """
    answer = part.function_response
    assert answer is not None
    extra = own_extra(message, part, format)
    fields = extra.get(ITEM)
    if fields is None:
        fields = {"type": kind, **SYNTHETIC_ANSWER_FIELDS.get(kind, {})}
        fields[id_field(fields)] = answer.call_id
    kind = fields["type"]

    def own(each: Part) -> Fields:
        return without(own_extra(message, each, format), INSIDE)

    result: Any
    if kind == "tool_search_output":
        result = next((own(each)[OPAQUE] for each in attached if OPAQUE in own(each)), [])
    elif kind == "computer_call_output":
        found = next((each for each in attached if each.inline_data), None)
        result = _screenshot(answer, found, own(found) if found else {})
    elif kind == "shell_call_output":
        result = _shell_output(answer, extra)
    else:
        result = unflatten(
            answer.result,
            extra.get("content"),
            attached,
            lambda each: write_block(each, own(each), "user"),
            lambda each: {"type": "input_text", "text": each.text},
        )
    return fields if result is None else {**fields, RESULTS[kind]: result}


def _screenshot(answer: ToolResult, found: Part | None, extra: Fields) -> Any:
    if isinstance(answer.result, dict):
        return answer.result
    if found and extra:
        return write_block(found, extra, "user")
    url = sendable_url(found.inline_data) if found and found.inline_data else None
    return {"type": "computer_screenshot", "image_url": url or SMALLEST_IMAGE}


def _shell_output(answer: ToolResult, extra: Fields) -> Any:
    if not isinstance(answer.result, str):
        return answer.result
    outcome = extra.get("outcome") or {"type": "exit", "exit_code": int(answer.is_error)}
    return [{"stdout": answer.result, "stderr": "", "outcome": outcome}]
