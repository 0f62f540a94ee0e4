"""The API formats and the counter of this distribution pass the suites of the kit."""

from typing import Any

import pytest

from jaato_gc import Message
from jaato_gc.plugin import TokenCounter
from jaato_gc_formats import counter_for, formats
from jaato_gc_formats._anthropic import AnthropicMessages
from jaato_gc_formats._api_format import ApiFormat
from jaato_gc_testing import CounterConformance, FormatConformance

PIXEL = "iVBORw0KGgo="


def chat_call(call_id: str, path: str) -> dict[str, Any]:
    function = {"name": "ls", "arguments": f'{{"path":"{path}"}}'}
    return {"id": call_id, "type": "function", "function": function}


CHAT = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is here?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [chat_call("c1", "."), chat_call("c2", "/x")],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    {"role": "tool", "tool_call_id": "c2", "content": "no such folder"},
    {"role": "assistant", "content": "One file."},
]
RESPONSES = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is here?"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        ],
    },
    {"type": "reasoning", "id": "rs1", "summary": [], "encrypted_content": "c2VjcmV0"},
    {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'},
    {"type": "function_call", "call_id": "c2", "name": "ls", "arguments": '{"path":"/x"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    {"type": "function_call_output", "call_id": "c2", "output": "no such folder"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "One file."}]},
]
ANTHROPIC = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is here?"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}},
            {"type": "tool_use", "id": "t2", "name": "ls", "input": {"path": "/x"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"},
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "content": [{"type": "text", "text": "no such folder"}],
                "is_error": True,
            },
        ],
    },
    {"role": "assistant", "content": "One file."},
]
GEMINI = [
    {
        "role": "user",
        "parts": [
            {"text": "What is here?"},
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "Look first.", "thought": True},
            {"functionCall": {"name": "ls", "args": {"path": "."}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "cat", "args": {"path": "/x"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "ls", "response": {"files": ["a.txt"], "more": 0}}},
            {"functionResponse": {"name": "cat", "response": {"error": "no such file"}}},
        ],
    },
    {"role": "model", "parts": [{"text": "One file."}]},
]


class TestOpenAIChat(FormatConformance):
    @staticmethod
    def factory() -> Any:
        return formats()["openai-chat"]

    @staticmethod
    def samples() -> list[list[Any]]:
        return [CHAT, [{"model": "gpt-5", "messages": CHAT}]]


class TestOpenAIResponses(FormatConformance):
    @staticmethod
    def factory() -> Any:
        return formats()["openai-responses"]

    @staticmethod
    def samples() -> list[list[Any]]:
        return [RESPONSES, [{"model": "gpt-5", "instructions": "Be brief.", "input": RESPONSES}]]


class TestAnthropic(FormatConformance):
    @staticmethod
    def factory() -> Any:
        return formats()["anthropic"]

    @staticmethod
    def samples() -> list[list[Any]]:
        request = {"model": "claude", "max_tokens": 9, "system": "Brief.", "messages": ANTHROPIC}
        return [ANTHROPIC, [request]]


class TestGemini(FormatConformance):
    @staticmethod
    def factory() -> Any:
        return formats()["gemini"]

    @staticmethod
    def samples() -> list[list[Any]]:
        return [GEMINI, [{"contents": GEMINI}]]


def test_every_format_has_a_suite_whose_samples_have_calls() -> None:
    suites: list[Any] = [TestOpenAIChat, TestOpenAIResponses, TestAnthropic, TestGemini]
    apis = {name for name, made in formats().items() if isinstance(made, ApiFormat)}
    assert {suite.factory().name for suite in suites} == apis
    for suite in suites:
        messages = suite.factory().read(suite.samples()[0])
        assert any(message.function_calls for message in messages)


class DropsCalls(AnthropicMessages):
    """A mutant: its writer forgets tool calls."""

    def write_item(self, message: Message) -> list[dict[str, Any]]:
        said = [part for part in message.parts if not part.function_call]
        return super().write_item(message.with_parts(said))


def test_the_suite_finds_a_writer_that_drops_tool_calls() -> None:
    class Suite(TestAnthropic):
        factory = staticmethod(DropsCalls)

    with pytest.raises(AssertionError, match=r"a reader misses \[\('call', 't1', 'ls', "):
        Suite().test_writes_messages_without_their_origin()


class TestProviderCounter(CounterConformance):
    @staticmethod
    def factory() -> TokenCounter:
        return counter_for("claude-sonnet-4-5")
