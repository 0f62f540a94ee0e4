"""The types of items in OpenAI Responses and their roles."""

from collections.abc import Sequence
from typing import Any

from jaato_gc import Role
from jaato_gc_formats._openai_common import mistyped
from jaato_gc_formats._wire import Fields, plain

ASSISTANT = "assistant"
ROLES = {
    "system": Role.SYSTEM, "developer": Role.SYSTEM,
    "user": Role.USER,
    ASSISTANT: Role.MODEL,
}  # fmt: skip
ARGUMENTS = {
    "custom_tool_call": ("input",),
    "computer_call": ("action", "actions"),
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "tool_search_call": ("arguments",),
}
"""Fields with the arguments, for calls of built-in tools and of tools that take no JSON."""
CALLS = ("function_call", "mcp_approval_request", *ARGUMENTS)
RESULTS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "tool_search_output": "tools",
    "mcp_approval_response": "reason",
}
"""Items that answer a call, and their field with the result."""
ANSWERS = {
    "mcp_approval_request": "mcp_approval_response",
    "tool_search_call": "tool_search_output",
}
"""Types of answers that are not named ``<call>_output``."""
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
"""Items that replace all earlier ones. The first is OpenAI's name; Codex has used the others."""
PROGRAM, PROGRAM_OUTPUT = "program", "program_output"
"""Code that OpenAI runs, which can call tools of the client, and its result."""
OTHER_KINDS = (
    PROGRAM, PROGRAM_OUTPUT,
    "message", "reasoning", "item_reference", "additional_tools", "configuration_update",
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
    "mcp_call", "mcp_list_tools", "compaction_trigger", "agent_message", "ghost_snapshot",
)  # fmt: skip
TYPES: dict[str, type] = {
    "type": str, "role": str, "id": str, "call_id": str, "name": str, "approval_request_id": str,
    "summary": list,
}  # fmt: skip
"""Required types of the fields of an item."""
FOREIGN_KINDS = (
    "tool_use", "tool_result", "thinking", "redacted_thinking", "text", "image", "image_url",
    "document", "file",
)  # fmt: skip
"""Types of blocks of OpenAI Chat Completions and Anthropic, which are no items and no blocks."""
ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
"""How the ids of items begin, by their type."""
KINDS = frozenset((*CALLS, *RESULTS, *COMPACTIONS, *OTHER_KINDS))


def role_of(item: Fields) -> Role:
    """Returns the role of an item. An item of an unknown type belongs to the model's message."""
    kind = item.get("type")
    if kind in COMPACTIONS:
        return Role.SYSTEM
    if kind in RESULTS and not is_by_server(item):
        return Role.TOOL
    if "role" in item:
        return ROLES.get(str(item["role"]), Role.USER)
    return Role.MODEL


def is_reference(item: Fields) -> bool:
    """Returns whether an item is a reference to an item stored on the server."""
    return item.get("type", "item_reference") == "item_reference" and "role" not in item


def is_by_server(item: Fields) -> bool:
    """Returns whether OpenAI runs a call, so that its answer is part of the model's response."""
    environment = item.get("environment")
    if item.get("type") == "shell_call" and isinstance(environment, dict):
        return environment.get("type") != "local"
    is_search = item.get("type") in ("tool_search_call", "tool_search_output")
    return is_search and not isinstance(item.get("call_id"), str)


def program_of(item: Fields) -> str | None:
    """Returns the id of the program that an item is, is the result of, or was called by."""
    caller = plain(item.get("caller"))
    is_program = item.get("type") in (PROGRAM, PROGRAM_OUTPUT)
    found = item.get("call_id") if is_program else None
    if isinstance(caller, dict) and caller.get("type") == PROGRAM:
        found = caller.get("caller_id")
    return found if isinstance(found, str) else None


def id_field(item: Fields) -> str:
    """Returns the name of the field with the call id of a call or an answer."""
    kind = item.get("type")
    if kind == "mcp_approval_request" or (
        kind == "local_shell_call_output" and "call_id" not in item
    ):
        return "id"
    return "approval_request_id" if kind == "mcp_approval_response" else "call_id"


def are_items(items: Any) -> bool:
    """Returns whether every record could be an item, including items of an unknown type."""
    return isinstance(items, list | tuple) and all(map(_could_be_item, map(plain, items)))


def _could_be_item(item: Any) -> bool:
    if not isinstance(item, dict) or mistyped(item, TYPES):
        return False
    if "type" in item:
        return item["type"] in KINDS or str(item["type"]).endswith(("_call", "_call_output"))
    return item.keys() == {"id"} or (item.get("role") in ROLES and "content" in item)


def looks_like_items(items: Sequence[Any]) -> float:
    """Returns the confidence that a list consists of items of this API."""
    score = 0.4 if items else 0.0
    for item in map(plain, items):
        if item.get("type", "message") != "message":
            score = 0.95
            continue
        content = item.get("content")
        for block in content if isinstance(content, list) else ():
            kind = str(block.get("type")) if isinstance(block, dict) else ""
            if not kind.startswith(("input_", "output_", "refusal")):
                return 0.0
            score = 0.95
        if "type" in item:
            score = max(score, 0.6)
    return score
