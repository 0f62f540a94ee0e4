"""OpenAI's Chat Completions API. Source: the API reference."""

from collections.abc import Iterator
from typing import Any

from strict_provider.provider import Fields, StrictProvider, twice

ROLES = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""The roles, and the types of their content."""


class StrictChat(StrictProvider):
    """Refuses calls and results that are not in one piece, and messages without content."""

    items_key = "messages"
    mark = "prompt_cache_breakpoint"

    def faults(self, request: Fields) -> Iterator[str]:
        waiting: list[Any] = []
        for at, message in enumerate([*request["messages"], {"role": "user", "content": "end"}]):
            where, role = f"messages[{at}]", message["role"]
            yield from (f"{where}: {fault}" for fault in _message_faults(message))
            if role == "tool":
                if message["tool_call_id"] in waiting:
                    waiting.remove(message["tool_call_id"])
                else:
                    yield f"{where}: a result without its call"
                continue
            if waiting:
                yield f"{where}: calls without results: {waiting}"
            waiting = [call["id"] for call in message.get("tool_calls") or []]
            if twice(waiting):
                yield f"{where}: two calls have one id"


def _message_faults(message: Fields) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    if role not in ROLES:
        yield f"unknown role {role}"
        return
    said = "tool_calls", "function_call", "refusal", "audio"
    is_said = role == "assistant" and any(message.get(name) for name in said)
    if content is None and not is_said:
        yield "it has no content"
    if content == [] or not isinstance(content, str | list | None):
        yield f"invalid content {content!r}"
    for block in content if isinstance(content, list) else ():
        if block["type"] not in ROLES[role]:
            yield f"{block['type']} in a message of {role}"
        if block["type"] == "text" and not isinstance(block["text"], str):
            yield "a text is none"
    if "tool_calls" in message and (role != "assistant" or message["tool_calls"] == []):
        yield f"invalid tool_calls: {message['tool_calls']}"
    for call in message.get("tool_calls") or []:
        if not call["id"] or not call["function"]["name"]:
            yield "a call without id or name"
        if not isinstance(call["function"]["arguments"], str):
            yield "arguments that are not a string"
