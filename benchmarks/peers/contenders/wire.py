"""The same history as the requests of two providers, for those who read and write them."""

import json
from collections.abc import Sequence
from typing import Any

from histories import Plain


def openai_request(history: Sequence[Plain]) -> dict[str, Any]:
    """A request to OpenAI's chat completions."""
    return {"model": "any", "messages": [_openai(plain) for plain in history]}


def anthropic_request(history: Sequence[Plain]) -> dict[str, Any]:
    """A request to Anthropic's messages."""
    system = next((plain.text for plain in history if plain.role == "system"), "")
    messages = [_anthropic(plain) for plain in history if plain.role != "system"]
    return {"model": "any", "max_tokens": 1_000, "system": system, "messages": messages}


def _openai(plain: Plain) -> dict[str, Any]:
    if plain.role == "tool":
        return {"role": "tool", "tool_call_id": plain.call_id, "content": plain.text}
    message: dict[str, Any] = {"role": plain.role, "content": plain.text}
    if plain.call:
        function = {"name": plain.call, "arguments": json.dumps(plain.arguments)}
        call = {"id": plain.call_id, "type": "function", "function": function}
        message["tool_calls"] = [call]
    return message


def _anthropic(plain: Plain) -> dict[str, Any]:
    if plain.role == "tool":
        result = {"type": "tool_result", "tool_use_id": plain.call_id, "content": plain.text}
        return {"role": "user", "content": [result]}
    content: list[dict[str, Any]] = [{"type": "text", "text": plain.text}]
    if plain.call:
        call = {"type": "tool_use", "id": plain.call_id, "name": plain.call}
        content.append({**call, "input": plain.arguments})
    return {"role": plain.role, "content": content}
