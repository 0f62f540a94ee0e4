"""A small sample of every format: the conformance suite, detection, reading, and fuzzing."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato_gc import PluginRegistry
from jaato_gc_formats import (
    Conversation,
    FormatError,
    check_request,
    detect,
    formats,
    from_messages,
    iter_messages,
    load,
)
from jaato_gc_testing import FormatConformance

FUNCTION = {"name": "ls", "arguments": '{"path":"."}'}
CHAT_CALL = {"id": "c1", "type": "function", "function": FUNCTION}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is here?"},
    {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
    {"role": "assistant", "content": "One file."},
]
TIME = "2026-01-01T00:00:00Z"
CLAUDE_CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
CLAUDE_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}


def claude(kind: str, uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **fields.pop("message", {})}
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}
    return {**line, "timestamp": TIME, "message": message}


def qwen(kind: str, uuid: str, parent: str | None, *parts: Any, **fields: Any) -> dict[str, Any]:
    message = {"role": "model" if kind == "assistant" else "user", "parts": list(parts)}
    line = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind}
    return {**line, "timestamp": TIME, "message": message, **fields}


def codex(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def pi(entry: str, parent: str | None, **message: Any) -> dict[str, Any]:
    line = {"type": "message", "id": entry, "parentId": parent, "timestamp": TIME}
    return {**line, "message": message}


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "timestamp": TIME, "message": "", **fields}


SAMPLES: dict[str, list[Any]] = {
    "openai-chat": CHAT,
    "anthropic": [
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": [CLAUDE_CALL]},
        {"role": "user", "content": [CLAUDE_RESULT]},
        {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
    ],
    "openai-responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "What is here?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"a": 1}}}]},
    ],
    "claude-code": [
        {"type": "summary", "summary": "A talk", "leafUuid": "4"},
        claude("user", "1", None, "What is here?"),
        claude("assistant", "2", "1", [CLAUDE_CALL], message={"id": "m1"}),
        claude("user", "3", "2", [CLAUDE_RESULT], toolUseResult={"stdout": "a.txt"}),
        claude("assistant", "4", "3", [{"type": "text", "text": "One file."}]),
    ],
    "qwen-code": [
        qwen("user", "1", None, {"text": "What is here?"}),
        qwen("assistant", "2", "1", {"functionCall": {"id": "c1", "name": "ls", "args": {}}}),
        qwen(
            "tool_result", "3", "2",
            {"functionResponse": {"id": "c1", "name": "ls", "response": {}}},
        ),
        qwen("assistant", "4", "3", {"text": "One file."}, usageMetadata={"promptTokenCount": 9}),
    ],
    "codex-rollout": [
        codex("session_meta", {"id": "s", "instructions": "Be brief."}),
        codex("response_item", {"type": "message", "role": "user", "content": "Hi"}),
        codex("response_item", {"type": "reasoning", "summary": [], "encrypted_content": "x"}),
        codex(
            "response_item",
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        ),
        codex("event_msg", {"type": "token_count", "info": {"last_token_usage": {
            "input_tokens": 20, "output_tokens": 5}}}),
        codex("response_item", {"type": "function_call_output", "call_id": "c1", "output": "a"}),
    ],
    "gemini-cli": [
        {
            "sessionId": "s",
            "projectHash": "p",
            "messages": [
                {"id": "1", "timestamp": TIME, "type": "user", "content": "What is here?"},
                {"id": "2", "timestamp": TIME, "type": "info", "content": "Update!"},
                {
                    "id": "3",
                    "timestamp": TIME,
                    "type": "gemini",
                    "content": "",
                    "tokens": {"input": 30, "output": 4, "thoughts": 2},
                    "toolCalls": [
                        {
                            "id": "c1",
                            "name": "ls",
                            "args": {},
                            "result": [
                                {"functionResponse": {"id": "c1", "name": "ls", "response": {}}}
                            ],
                        }
                    ],
                },
            ],
        }
    ],
    "cline": [
        {
            "sessionId": "s",
            "system_prompt": "Be brief.",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What is here?"}], "ts": 1},
                {"role": "assistant", "content": [CLAUDE_CALL], "ts": 1767225600002},
                {"role": "user", "content": [{**CLAUDE_RESULT, "name": "ls"}], "ts": 3},
            ],
        }
    ],
    "cursor": [
        {"role": "user", "message": {"content": [{"type": "text", "text": "What is here?"}]}},
        {"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "ls"}]}},
        {"role": "user", "message": {"content": [{"type": "tool_result", "content": "a.txt"}]}},
    ],
    "pi": [
        {"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/"},
        pi("1", None, role="user", content=[{"type": "text", "text": "What is here?"}]),
        pi("2", "1", role="assistant", usage={"input": 3, "cacheRead": 4, "output": 2}, content=[
            {"type": "toolCall", "id": "t1", "name": "ls", "arguments": {}}]),
        pi("3", "2", role="toolResult", toolCallId="t1", toolName="ls", content=[
            {"type": "text", "text": "a.txt"}]),
    ],
    "openhands": [
        event(0, source="agent", action="system", args={"content": "Be brief."}),
        event(1, source="user", action="message", args={"content": "What is here?"}),
        event(2, source="agent", action="run", args={"command": "ls", "thought": "Look."}),
        event(3, source="agent", observation="run", cause=2, content="a.txt", extras={}),
    ],
    "litellm": [
        {
            "messages": CHAT[:4],
            "tools": [{"type": "function", "function": {"name": "ls"}}],
            "response": {
                "choices": [{"message": CHAT[4]}],
                "usage": {"prompt_tokens": 50, "completion_tokens": 3},
            },
        }
    ],
    "swe-agent": [
        {
            "environment": "main",
            "trajectory": [{"action": "ls", "observation": "a.txt", "response": "Look."}],
            "history": [
                {"role": "system", "content": "Be brief.", "agent": "main"},
                {"role": "user", "content": "What is here?", "agent": "main"},
                {"role": "assistant", "content": "Look.", "tool_calls": [CHAT_CALL]},
                {"role": "tool", "content": "a.txt", "tool_call_ids": ["c1"]},
            ],
        }
    ],
    "tau-bench": [{"task_id": 1, "trial": 0, "reward": 1.0, "traj": CHAT}],
    "tau2": [
        {
            "simulations": [
                {
                    "task_id": "1",
                    "messages": [
                        {"role": "assistant", "content": "Hi! How can I help?"},
                        {"role": "user", "content": "What is here?"},
                        {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [{"id": "c1", "name": "ls", "arguments": {"path": "."}}],
                        },
                        {"role": "tool", "id": "c1", "content": "a.txt", "requestor": "assistant"},
                    ],
                }
            ]
        }
    ],
    "inspect": [
        {
            "version": 2,
            "eval": {"model": "m"},
            "samples": [
                {
                    "id": 1,
                    "epoch": 1,
                    "attachments": {"x": "What is here?"},
                    "messages": [
                        {"role": "user", "content": "attachment://x"},
                        {
                            "id": "m2",
                            "role": "assistant",
                            "content": [{"type": "reasoning", "reasoning": "Hm."}],
                            "tool_calls": [{"id": "c1", "function": "ls", "arguments": {}}],
                        },
                        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
                    ],
                    "events": [
                        {
                            "event": "model",
                            "timestamp": TIME,
                            "output": {
                                "choices": [{"message": {"id": "m2"}}],
                                "usage": {"total_tokens": 60, "output_tokens": 10},
                            },
                        }
                    ],
                }
            ],
        }
    ],
    "http-exchange": [
        {
            "method": "POST",
            "uri": "https://api.example.com/v1/chat/completions",
            "request": {"model": "m", "messages": CHAT[:2]},
            "status": {"code": 200},
            "response": {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 2}},
        },
        {
            "method": "POST",
            "uri": "https://api.example.com/v1/chat/completions",
            "request": {"model": "m", "messages": CHAT[:4]},
            "status": {"code": 200},
            "response": {"string": 'data: {"usage": {"prompt_tokens": 30}}\n\ndata: [DONE]\n'},
        },
    ],
    "role-lines": [
        {"timestamp": TIME, "role": "user", "content": "What is here?"},
        {"timestamp": TIME, "type": "tool_call", "function": {"name": "ls"}, "arguments": "{}"},
        {"timestamp": TIME, "type": "tool_result", "name": "ls", "result": "a.txt"},
        {"timestamp": TIME, "role": "assistant", "content": "One file."},
    ],
    "antigravity": [
        {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": "Hi"},
        {
            "step_index": 1,
            "source": "MODEL",
            "type": "PLANNER_RESPONSE",
            "thinking": "Hm.",
            "tool_calls": [{"name": "list_dir", "args": {"path": '"."'}}],
        },
        {"step_index": 2, "source": "MODEL", "type": "LIST_DIRECTORY", "content": "a.txt"},
    ],
}  # fmt: skip

WITH_USAGE = {
    "claude-code": [],
    "codex-rollout": [(20, 5, 2)],
    "gemini-cli": [(30, 6, 1)],
    "http-exchange": [(12, 2, 2), (30, 0, 4)],
    "inspect": [(50, 10, 1)],
    "litellm": [(50, 3, 4)],
    "pi": [(7, 2, 1)],
    "qwen-code": [(9, 0, 3)],
}


REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)


def data(conversation: Conversation) -> Any:
    return from_messages(conversation.messages, registry=REGISTRY)


def is_log_of_many_records(name: str) -> bool:
    return name not in ("openai-chat", "anthropic", "openai-responses", "gemini") and (
        len(SAMPLES[name]) > 1
    )


def lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "log.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("check", [each for each in dir(FormatConformance) if "test_" in each])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_passes_the_conformance_suite(name: str, check: str) -> None:
    class Suite(FormatConformance):
        @staticmethod
        def factory() -> Any:
            return formats(REGISTRY)[name]

        @staticmethod
        def samples() -> list[list[Any]]:
            return [SAMPLES[name]]

    getattr(Suite(), check)()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_format_is_detected_and_read_without_problems(name: str, tmp_path: Path) -> None:
    assert detect(SAMPLES[name], registry=REGISTRY).format == name
    [conversation] = read(written(tmp_path, lines(SAMPLES[name])))
    assert conversation.format == name
    calls = [call.name for message in conversation.messages for call in message.function_calls]
    assert calls == [
        "list_dir" if name == "antigravity" else "run" if name == "openhands" else "ls"
    ]
    assert conversation.problems == []
    history = conversation.messages
    request = from_messages(history, registry=REGISTRY)
    assert check_request(request, history.format, registry=REGISTRY) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_json_lines_and_a_json_array_are_read_the_same(name: str, tmp_path: Path) -> None:
    [as_lines] = read(written(tmp_path, lines(SAMPLES[name])))
    [as_array] = read(written(tmp_path, json.dumps(SAMPLES[name], indent=1)))
    assert data(as_lines) == data(as_array)


@pytest.mark.parametrize("name", SAMPLES)
def test_iter_messages_yields_the_messages_that_load_returns(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, lines(SAMPLES[name]))
    [conversation] = read(path)
    streamed = list(iter_messages(path, registry=REGISTRY))
    assert [(message.role, message.parts) for message in streamed] == [
        (message.role, message.parts) for message in conversation.messages
    ]


@pytest.mark.parametrize("name", WITH_USAGE)
def test_usage_has_the_position_of_the_end_of_its_request(name: str, tmp_path: Path) -> None:
    [conversation] = read(written(tmp_path, lines(SAMPLES[name])))
    assert [
        (usage.input_tokens, usage.output_tokens, usage.position) for usage in conversation.usage
    ] == WITH_USAGE[name]


@pytest.mark.parametrize("name", [name for name in SAMPLES if is_log_of_many_records(name)])
def test_a_record_of_an_unknown_kind_is_skipped(name: str, tmp_path: Path) -> None:
    unknown = {key: "x" for key in SAMPLES[name][1] if key not in ("message", "payload", "action")}
    unknown |= {"type": "a-new-kind"} if "type" in unknown else {}
    [expected] = read(written(tmp_path, lines(SAMPLES[name])))
    [conversation] = read(written(tmp_path, lines([*SAMPLES[name], unknown])))
    assert data(conversation) == data(expected)


# --- every file is either read or rejected with a FormatError ---

FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def is_read_or_refused(path: Path) -> None:
    refusals: list[FormatError] = []
    for repair in (False, True):
        try:
            for conversation in read(path, repair=repair):
                data(conversation)
            list(iter_messages(path, repair=repair, registry=REGISTRY))
        except FormatError as error:
            refusals.append(error)
    assert all(str(path) in str(error) for error in refusals)


@FUZZ
@given(name=st.sampled_from(sorted(SAMPLES)), drawn=st.data())
def test_logs_with_changed_characters_are_read_or_rejected(
    name: str, drawn: st.DataObject, tmp_path: Path
) -> None:
    text = lines(SAMPLES[name])
    for _ in range(drawn.draw(st.integers(1, 3))):
        start = drawn.draw(st.integers(0, len(text)))
        end = min(len(text), start + drawn.draw(st.integers(0, 40)))
        how = drawn.draw(st.sampled_from(["delete", "duplicate", "cut", "insert", "swap lines"]))
        if how == "delete":
            text = text[:start] + text[end:]
        elif how == "duplicate":
            text = text[:end] + text[start:end] + text[end:]
        elif how == "cut":
            text = text[:start]
        elif how == "insert":
            text = text[:start] + drawn.draw(st.text(max_size=3)) + text[start:]
        else:
            text = "\n".join(drawn.draw(st.permutations(text.split("\n"))))
    is_read_or_refused(written(tmp_path, text.encode(errors="surrogatepass")))


@FUZZ
@given(name=st.sampled_from(sorted(SAMPLES)), drawn=st.data())
def test_logs_with_changed_values_are_read_or_rejected(
    name: str, drawn: st.DataObject, tmp_path: Path
) -> None:
    """Replaces a random value in the log by any JSON value."""
    records = json.loads(json.dumps(SAMPLES[name]))
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = list(records)
    while todo:
        value = todo.pop()
        found = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in found:
            places.append((value, key))
            if isinstance(inner, dict | list):
                todo.append(inner)
    container, key = drawn.draw(st.sampled_from(places))
    container[key] = drawn.draw(VALUES)
    is_read_or_refused(written(tmp_path, lines(records)))


@FUZZ
@given(value=st.lists(VALUES, max_size=4) | VALUES)
def test_any_json_is_read_or_rejected(value: Any, tmp_path: Path) -> None:
    is_read_or_refused(written(tmp_path, json.dumps(value)))


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_rejected(content: bytes, tmp_path: Path) -> None:
    is_read_or_refused(written(tmp_path, content))
