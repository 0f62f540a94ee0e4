"""The formats and the counter of this distribution pass the conformance suites of the kit."""

from typing import Any

from jaato_gc.plugin import TokenCounter
from jaato_gc_formats import counter_for, formats
from jaato_gc_testing import CounterConformance, FormatConformance

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is here?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    {"role": "assistant", "content": "One file."},
]
RESPONSES = [
    {"role": "user", "content": "What is here?"},
    {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'},
    {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
]
ANTHROPIC = [
    {"role": "user", "content": "What is here?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}],
    },
]
GEMINI = [
    {"role": "user", "parts": [{"text": "What is here?"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "."}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"out": "a"}}}]},
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


def logged(uuid: str, parent: str | None, kind: str, content: Any) -> dict[str, Any]:
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s"}
    time = "2026-01-01T00:00:00Z"
    return {**line, "timestamp": time, "message": {"role": kind, "content": content}}


class TestClaudeCode(FormatConformance):
    """A log of an agent, which is only read."""

    @staticmethod
    def factory() -> Any:
        return formats()["claude-code"]

    @staticmethod
    def samples() -> list[list[Any]]:
        answer = [{"type": "text", "text": "One file."}]
        return [[logged("1", None, "user", "What is here?"), logged("2", "1", "assistant", answer)]]


class TestProviderCounter(CounterConformance):
    @staticmethod
    def factory() -> TokenCounter:
        return counter_for("claude-sonnet-4-5")
