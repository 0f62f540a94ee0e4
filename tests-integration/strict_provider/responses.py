"""OpenAI's Responses API without storage. Sources: the API reference, and the guide on reasoning.

Reasoning comes back with what it led to: the items of the same answer after it, up to the next
reasoning, and none of them without it.
"""

from collections.abc import Iterator
from typing import Any

from strict_provider.provider import Fields, StrictProvider, twice

ROLES = {
    "system": {"input_text"},
    "developer": {"input_text"},
    "user": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}
OUTPUTS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "mcp_approval_response": "mcp_approval_request",
    "program_output": "program",
}
"""Items that answer a call, and the type of the call."""
WANT_OUTPUT = ("function_call", "custom_tool_call")
BY_SERVER = ("web_search_call", "mcp_call", "mcp_list_tools", "code_interpreter_call")
PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_"}


class StrictResponses(StrictProvider):
    """Remembers which items came with which reasoning."""

    items_key = "input"
    mark = "prompt_cache_breakpoint"

    def __init__(self, marks_given: int | None = None) -> None:
        super().__init__(marks_given)
        self._reasoning_of: dict[str, str] = {}
        self._next_of: dict[str, str] = {}
        self._sealed: dict[str, Any] = {}

    def faults(self, request: Fields) -> Iterator[str]:
        items = request["input"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        yield from (f"the id {each} occurs twice" for each in twice(_item_ids(items)))
        for at, item in enumerate(items):
            yield from (f"input[{at}]: {fault}" for fault in _item_faults(item))
        yield from _pairs(items)
        yield from self._reasoning(items)

    def answered(self, said: list[Fields]) -> None:
        reasoning = None
        for item in said:
            if reasoning and item["type"] != "reasoning":
                self._reasoning_of[item["id"]] = reasoning
                self._next_of.setdefault(reasoning, item["id"])
            if item["type"] == "reasoning":
                reasoning = item["id"]
                self._sealed[reasoning] = item.get("encrypted_content")

    def _reasoning(self, items: list[Fields]) -> Iterator[str]:
        sent: set[Any] = set()
        for at, item in enumerate(items):
            item_id = item.get("id")
            if item.get("type") == "reasoning" and item_id in self._sealed:
                if item.get("encrypted_content") != self._sealed[item_id]:
                    yield f"input[{at}]: reasoning {item_id} can't be verified"
                following = items[at + 1].get("id") if at + 1 < len(items) else None
                if following != self._next_of.get(item_id):
                    yield f"input[{at}]: reasoning {item_id} without its required following item"
            reasoning = self._reasoning_of.get(item_id or "")
            if reasoning is not None and reasoning not in sent:
                yield f"input[{at}]: {item_id} without its required reasoning {reasoning}"
            sent.add(item_id)


def _item_ids(items: list[Fields]) -> Iterator[Any]:
    yield from (item.get("id") for item in items)


def _item_faults(item: Fields) -> Iterator[str]:
    kind = item.get("type", "message")
    prefix = PREFIXES.get(kind)
    if prefix and item.get("id") and not item["id"].startswith(prefix):
        yield f"the id {item['id']!r} of {kind} does not begin with {prefix}"
    if kind == "message":
        yield from _message_faults(item)
    elif kind in WANT_OUTPUT:
        if not item["name"] or not item["call_id"] or len(item["call_id"]) > 64:
            yield f"invalid name or call id of {kind}"
    elif kind == "reasoning":
        if "status" in item:
            yield "reasoning has a status"
    elif kind in OUTPUTS:
        if kind in ("function_call_output", "custom_tool_call_output") and item["output"] is None:
            yield "an output without content"
    elif kind not in (*BY_SERVER, *OUTPUTS.values()):
        yield f"unknown type {kind}"


def _message_faults(item: Fields) -> Iterator[str]:
    content = item.get("content")
    if item["role"] not in ROLES:
        yield f"unknown role {item['role']}"
    elif not isinstance(content, str | list) or content == []:
        yield f"invalid content {content!r}"
    elif isinstance(content, list):
        for block in content:
            if block["type"] not in ROLES[item["role"]]:
                yield f"{block['type']} in a message of {item['role']}"
            if "text" in block["type"] and not isinstance(block["text"], str):
                yield "a text is none"


def _pairs(items: list[Fields]) -> Iterator[str]:
    """Each call has one output, after it; what code calls, it calls after it began."""
    made: dict[Any, str] = {}
    waiting: set[Any] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        caller = (item.get("caller") or {}).get("caller_id")
        if caller and made.get(caller) != "program":
            yield f"input[{at}]: {kind} by the program {caller}, which is not there"
        if kind in OUTPUTS.values():
            call = item["id"] if kind == "mcp_approval_request" else item["call_id"]
            made[call] = kind
            waiting |= {call} if kind in WANT_OUTPUT else set()
        elif kind in OUTPUTS:
            call = item.get("call_id") or item.get("approval_request_id")
            if made.get(call) != OUTPUTS[kind]:
                yield f"input[{at}]: {kind} for {call}, which is not there"
            waiting.discard(call)
    if waiting:
        yield f"calls without outputs: {sorted(waiting)}"
