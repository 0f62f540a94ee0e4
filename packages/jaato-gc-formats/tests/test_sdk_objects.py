"""Objects of the providers' SDKs are read, and written as the original objects."""

import json
import warnings
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from jaato_gc import Message, Role, message_from_dict, message_to_dict
from jaato_gc_formats import from_messages, to_messages

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # compiling this package causes syntax warnings
    from google.genai import types

ARGUMENTS = json.dumps({"path": "a.py"})
CHAT = ChatCompletion.model_validate(
    {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "tool_calls", "logprobs": None,
            "message": {
                "role": "assistant", "content": None, "refusal": None, "annotations": [],
                "tool_calls": [{
                    "id": "call_1", "type": "function",
                    "function": {"name": "read", "arguments": ARGUMENTS},
                }],
            },
        }],
    }
)  # fmt: skip
RESPONSE = Response.model_validate(
    {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": True,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            {
                "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read",
                "arguments": ARGUMENTS, "status": "completed",
            },
        ],
    }
)  # fmt: skip
ANTHROPIC = AnthropicMessage.model_validate(
    {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
)  # fmt: skip
GEMINI = types.Content(
    role="model",
    parts=[
        types.Part(
            function_call=types.FunctionCall(name="read", args={"path": "a.py"}),
            thought_signature=b"\xfb\xff\xfe",  # differs between standard and URL-safe base64
        )
    ],
)

HISTORIES: dict[str, list[Any]] = {
    "openai-chat": [
        {"role": "user", "content": "What is in a.py?"},
        CHAT.choices[0].message,
        {"role": "tool", "tool_call_id": "call_1", "content": "print()"},
    ],
    "openai-responses": [
        {"role": "user", "content": "What is in a.py?"},
        *RESPONSE.output,
        {"type": "function_call_output", "call_id": "call_1", "output": "print()"},
    ],
    "anthropic": [
        {"role": "user", "content": "What is in a.py?"},
        {"role": "assistant", "content": ANTHROPIC.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "print()"}],
        },
    ],
    "gemini": [
        types.UserContent("What is in a.py?"),
        GEMINI,
        types.Content(
            role="user",
            parts=[types.Part.from_function_response(name="read", response={"output": "print()"})],
        ),
    ],
}
each_sdk = pytest.mark.parametrize("format", HISTORIES)


def as_sent(item: Any) -> Any:
    """Converts an item to the JSON that the SDK sends."""
    if isinstance(item, types.Content):
        return item.model_dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(item, "model_dump"):
        return item.model_dump(mode="json", exclude_unset=True)
    if isinstance(item, dict):
        return {name: as_sent(value) for name, value in item.items()}
    return [as_sent(each) for each in item] if isinstance(item, list) else item


@each_sdk
def test_sdk_objects_are_written_as_the_original_objects(format: str) -> None:
    items = HISTORIES[format]
    back = from_messages(to_messages(items, format))

    assert all(one is other for one, other in zip(back, items, strict=True))


@each_sdk
def test_sdk_objects_are_read(format: str) -> None:
    history = to_messages(HISTORIES[format], format)

    assert [message.role for message in history] == [Role.USER, Role.MODEL, Role.TOOL]
    assert history[0].text == "What is in a.py?"
    [call] = history[1].function_calls
    assert (call.name, call.args) == ("read", {"path": "a.py"})
    [answer] = history[2].function_responses
    assert (answer.name, answer.result) == ("read", "print()")


@each_sdk
def test_saved_and_restored_sdk_objects_are_sent_unchanged(format: str) -> None:
    history = to_messages(HISTORIES[format], format)
    text = json.dumps([message_to_dict(message) for message in history])
    restored: list[Message] = [message_from_dict(each) for each in json.loads(text)]

    assert as_sent(from_messages(restored, format)) == as_sent(HISTORIES[format])


def test_googles_content_classes_determine_the_role() -> None:
    history = to_messages([types.UserContent("Hello."), types.ModelContent("Hi.")], "gemini")

    assert [message.role for message in history] == [Role.USER, Role.MODEL]


def test_googles_sdk_accepts_restored_contents() -> None:
    history = [replace(each, origin=None) for each in to_messages(HISTORIES["gemini"], "gemini")]

    back = [types.Content.model_validate(each) for each in from_messages(history, "gemini")]

    assert as_sent(back) == as_sent(HISTORIES["gemini"])
