"""The validation rules of the providers, written independently of the rules in jaato-gc-formats.

Each function raises `RefusedError` with the provider's error message for the first violation.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any

Fields = dict[str, Any]


class RefusedError(Exception):
    """A request was refused, with the provider's message and error code."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def refuse_if(wrong: object, message: str, code: str | None = None) -> None:
    if wrong:
        raise RefusedError(message, code)


def seal(*content: Any) -> str:
    """Returns a signature of the content, in base64 as providers use it."""
    text = json.dumps(content, sort_keys=True)
    return base64.b64encode(hashlib.sha512(text.encode()).digest()).decode()


# --- OpenAI, Chat Completions ---


def check_chat(request: Fields) -> None:
    messages = request["messages"]
    refuse_if(
        not messages, "Invalid 'messages': empty array. Expected an array with minimum length 1"
    )
    open_calls: list[str] = []
    for position, message in enumerate(messages):
        where, role = f"messages.[{position}]", message["role"]
        calls = [call["id"] for call in message.get("tool_calls") or []]
        if role == "tool":
            refuse_if(
                message["tool_call_id"] not in open_calls,
                f"Invalid parameter: {where}: messages with role 'tool' must be a response to a "
                "preceeding message with 'tool_calls'.",
            )
            open_calls.remove(message["tool_call_id"])
        else:
            _check_chat_calls_have_results(open_calls)
            open_calls = calls
        refuse_if(
            message.get("tool_calls") == [],
            f"Invalid 'messages[{position}].tool_calls': empty array. Expected an array with "
            "minimum length 1, but got an empty array instead.",
            "empty_array",
        )
        refuse_if(
            message.get("content") in (None, []) and not calls,
            f"Invalid value for 'content' of {where}: expected a string, got null.",
        )
        for call in message.get("tool_calls") or []:
            refuse_if(
                not isinstance(call["function"]["arguments"], str),
                f"{where}.tool_calls: arguments: expected a string, but got an object instead.",
            )
    _check_chat_calls_have_results(open_calls)


def _check_chat_calls_have_results(open_calls: list[str]) -> None:
    refuse_if(
        open_calls,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(open_calls),
    )


# --- OpenAI, Responses ---


def check_responses(request: Fields, bound: dict[str, str]) -> None:
    """Validates a request of the Responses API.

    Args:
        request: The request.
        bound: The id of the reasoning item that each output item of the server requires.
    """
    items = request["input"]
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    refuse_if(not items, "One of 'input' or 'previous_response_id' must be provided.")
    calls = {item["call_id"] for item in items if item.get("type") == "function_call"}
    outputs = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    for call_id in sorted(calls - outputs):
        raise RefusedError(f"No tool output found for function call {call_id}.")
    seen: set[str] = set()
    for position, item in enumerate(items):
        kind, item_id = item.get("type", "message"), item.get("id")
        refuse_if(item_id in seen, f"Duplicate item found with id {item_id}. Remove duplicates.")
        if kind == "function_call_output":
            refuse_if(
                item["call_id"] not in calls,
                f"No tool call found for function call output with call_id {item['call_id']}.",
            )
        if kind == "message":
            refuse_if(item.get("content") in (None, [], ""), f"input[{position}]: empty content.")
        if kind == "reasoning":
            _check_reasoning(item, items[position + 1 :])
        elif (reasoning := bound.get(item_id or "")) and reasoning not in seen:
            raise RefusedError(
                f"Item '{item_id}' of type '{kind}' was provided without its required "
                f"'reasoning' item: '{reasoning}'."
            )
        seen |= {item_id} - {None}


def _check_reasoning(item: Fields, following: list[Fields]) -> None:
    item_id, content = item["id"], item.get("encrypted_content")
    refuse_if(
        content is None,
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to "
        "false.",
    )
    refuse_if(
        content != seal("reasoning", item_id),
        f"The encrypted content for item {item_id} could not be verified.",
        "invalid_encrypted_content",
    )
    after = following[0] if following else {}
    is_model_output = after.get("type") == "function_call" or after.get("role") == "assistant"
    refuse_if(
        not is_model_output,
        f"Item '{item_id}' of type 'reasoning' was provided without its required following item.",
    )


# --- Anthropic ---


def check_anthropic(request: Fields) -> None:
    refuse_if("max_tokens" not in request, "max_tokens: Field required")
    messages = [_anthropic_message(position, each) for position, each in _numbered(request)]
    refuse_if(not messages, "messages: at least one message is required")
    refuse_if(messages[0][0] != "user", 'messages: first message must use the "user" role')
    called: list[str] = []
    has_tools = False
    for position, (role, blocks) in enumerate(_combined(messages)):
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for number, result in enumerate(results):
            refuse_if(
                result not in called,
                f"messages.{position}.content.{number}: unexpected `tool_use_id` found in "
                f"`tool_result` blocks: {result}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message.",
            )
            refuse_if(
                results.count(result) > 1,
                f"messages.{position}.content.{number}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {result}",
            )
        first = [block["type"] == "tool_result" for block in blocks[: len(called)]]
        refuse_if(
            called and not (len(results) == len(called) and all(first)),
            f"messages.{position - 1}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(called)}. Each `tool_use` block must have a "
            "corresponding `tool_result` block in the next message.",
        )
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        refuse_if(
            role == "user" and called,
            f"messages.{position}: `tool_use` blocks can only be in `assistant` messages",
        )
        refuse_if(len(called) != len(set(called)), "messages: `tool_use` ids must be unique")
        has_tools = has_tools or bool(called)
    refuse_if(called, f"messages: `tool_use` ids were found without `tool_result` blocks: {called}")
    refuse_if(
        has_tools and not request.get("tools"),
        "Requests which have `tool_use` or `tool_result` blocks must define tools",
    )
    if request.get("thinking", {}).get("type") == "enabled":
        _check_thinking_precedes_calls(messages)


def _numbered(request: Fields) -> Iterable[tuple[int, Fields]]:
    return enumerate(request["messages"])


def _anthropic_message(position: int, message: Fields) -> tuple[str, list[Fields]]:
    where = f"messages.{position}"
    for unknown in message.keys() - {"role", "content"}:
        raise RefusedError(f"{where}.{unknown}: Extra inputs are not permitted")
    role, content = message["role"], message["content"]
    refuse_if(role not in ("user", "assistant"), f"{where}.role: Input should be 'user'")
    refuse_if(not content, f"{where}: all messages must have non-empty content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for number, block in enumerate(blocks):
        if block["type"] == "text":
            refuse_if(not block["text"].strip(), "messages: text content blocks must be non-empty")
        if block["type"] == "thinking":
            refuse_if(
                block.get("signature") != seal("thinking", block["thinking"]),
                f"{where}.content.{number}: Invalid `signature` in `thinking` block",
            )
    return role, blocks


def _combined(messages: list[tuple[str, list[Fields]]]) -> list[tuple[str, list[Fields]]]:
    """Merges consecutive messages with the same role."""
    combined: list[tuple[str, list[Fields]]] = []
    for role, blocks in messages:
        if combined and combined[-1][0] == role:
            combined[-1] = role, combined[-1][1] + blocks
        else:
            combined.append((role, blocks))
    return combined


def _check_thinking_precedes_calls(messages: list[tuple[str, list[Fields]]]) -> None:
    """Checks that the first model message after the last user message starts with thinking."""
    is_result = [any(block["type"] == "tool_result" for block in each) for _, each in messages]
    if not is_result[-1]:
        return
    last_user = max(
        number
        for number, (role, _) in enumerate(messages)
        if role == "user" and not is_result[number]
    )
    kind = messages[last_user + 1][1][0]["type"]
    refuse_if(
        kind not in ("thinking", "redacted_thinking"),
        f"messages.{last_user + 1}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        f"found `{kind}`. When `thinking` is enabled, a final `assistant` message must start with "
        "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    )


# --- Google ---


def check_gemini(request: Fields) -> None:
    contents: list[Fields] = request.get("contents") or []
    refuse_if(not contents, "* GenerateContentRequest.contents: contents is not specified")
    last_user = max(
        (
            number
            for number, content in enumerate(contents)
            if content.get("role") == "user" and not _parts(content, "functionResponse")
        ),
        default=0,
    )
    before: Fields = {}
    for position, content in enumerate(contents):
        where = f"contents[{position}]"
        for unknown in content.keys() - {"role", "parts"}:
            raise RefusedError(
                f"Invalid JSON payload received. Unknown name \"{unknown}\" at '{where}'"
            )
        refuse_if(
            not content.get("parts"),
            f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.",
        )
        is_model = content.get("role") == "model"
        results = _parts(content, "functionResponse")
        calls = _parts(content, "functionCall")
        refuse_if(
            is_model and results, "Content with role 'model' can't contain 'functionResponse' part"
        )
        refuse_if(
            not is_model and calls, "Content with role 'user' can't contain 'functionCall' part"
        )
        open_calls = _parts(before, "functionCall")
        refuse_if(
            results and not open_calls,
            "Please ensure that function response turn comes immediately after a function call "
            "turn.",
        )
        refuse_if(
            len(results) != len(open_calls),
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn.",
        )
        refuse_if(
            calls and before.get("role", "model") == "model",
            "Please ensure that function call turn comes immediately after a user turn or after a "
            "function response turn.",
        )
        _check_signatures(content, position, required=position > last_user)
        before = content
    refuse_if(_parts(before, "functionCall"), "Please ensure that function calls are answered.")


def _parts(content: Fields, kind: str) -> list[Fields]:
    return [part for part in content.get("parts", []) if kind in part]


def _check_signatures(content: Fields, position: int, *, required: bool) -> None:
    """Checks that the first call has a signature if required, and that signatures are valid."""
    for number, part in enumerate(_parts(content, "functionCall")):
        call, signature = part["functionCall"], part.get("thoughtSignature")
        refuse_if(
            required and number == 0 and signature is None,
            "Function call is missing a thought_signature in functionCall parts. Additional data, "
            f"function call `default_api:{call['name']}`, position {position}.",
        )
        if signature is not None:
            standard = signature.replace("-", "+").replace("_", "/")  # accepts URL-safe base64
            expected = seal("call", call["name"], call.get("args"))
            refuse_if(standard != expected, "Thought signature is not valid")
