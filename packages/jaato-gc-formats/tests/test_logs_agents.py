"""Features of the logs of single agents."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry, Role
from jaato_gc_formats import Conversation, from_messages, load

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def conversations(path: Path, *records: Any) -> list[Conversation]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read(path)


def data(conversation: Conversation) -> Any:
    return from_messages(conversation.messages, registry=REGISTRY)


def texts(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.messages]


# --- Codex ---


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "t", "type": kind, "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def test_codex_instructions_are_read_and_internal_records_skipped(path: Path) -> None:
    [conversation] = conversations(
        path,
        codex("session_meta", id="s", base_instructions={"text": "Be brief."}),
        codex("turn_context", model="m"),
        codex("response_item", **said("user", "Hi"), metadata={"turn_id": "1"}, id="msg-1"),
        codex("event_msg", type="user_message", message="Hi"),
        codex("response_item", type="ghost_snapshot", ghost_commit={}),
        codex("response_item", type="reasoning", summary=[], content=None, encrypted_content="x"),
        codex("response_item", **said("assistant", "Hello.")),
    )
    assert data(conversation) == {
        "instructions": "Be brief.",
        "input": [
            said("user", "Hi"),
            {"type": "reasoning", "summary": [], "encrypted_content": "x"},
            said("assistant", "Hello."),
        ],
    }
    assert conversation.name == "s"


def test_codex_starts_a_new_conversation_after_a_compaction(path: Path) -> None:
    first, second = conversations(
        path,
        codex("session_meta", id="s"),
        codex("response_item", **said("user", "Long ago.")),
        codex("response_item", **said("assistant", "Yes.")),
        codex("compacted", message="", replacement_history=[said("user", "Long ago, in short.")]),
        codex("response_item", **said("user", "Now.")),
    )
    assert (first.name, texts(first)) == ("s#1", ["Long ago.", "Yes."])
    assert (second.name, texts(second)) == ("s#2", ["Long ago, in short.", "Now."])


def test_older_codex_files_of_plain_items_are_read(path: Path) -> None:
    [conversation] = conversations(
        path,
        {"id": "s", "timestamp": "t", "instructions": "Be brief."},
        {"record_type": "state"},
        said("user", "Hi"),
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": {"content": "a", "success": 1}},
    )
    assert conversation.problems == []
    assert conversation.messages[-1].function_responses[0].result == "a"


# --- Gemini CLI ---


def chat(message_id: str, kind: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": "t", "type": kind, "content": content, **fields}


def test_gemini_cli_updates_rewinds_and_replacements_are_applied(path: Path) -> None:
    [conversation] = conversations(
        path,
        {"sessionId": "s", "projectHash": "p", "kind": "main"},
        chat("1", "user", "Look."),
        chat("2", "gemini", "Loo"),
        chat("2", "gemini", "Looked."),
        chat("3", "user", "Forget this."),
        chat("4", "gemini", "What?"),
        {"$rewindTo": "3"},
        {"$set": {"lastUpdated": "t"}},
        chat("5", "user", "Go on."),
        {"$set": {"messages": [chat("6", "user", "In short: looked.")]}},
        chat("7", "gemini", "Right."),
    )
    assert texts(conversation) == ["Look.", "Looked.", "Go on.", "In short: looked.", "Right."]
    assert conversation.compactions == [3]


def test_gemini_cli_usage_includes_cached_tokens_and_results_of_built_in_tools(path: Path) -> None:
    tokens = {"input": 100, "cached": 80, "tool": 30, "output": 5, "thoughts": 2, "total": 137}
    [conversation] = conversations(
        path,
        {"sessionId": "s", "projectHash": "p"},
        chat("1", "user", "Search."),
        chat("2", "gemini", "Found.", tokens=tokens),
    )
    [usage] = conversation.usage
    assert (usage.input_tokens, usage.output_tokens, usage.position) == (130, 7, 1)


def test_consecutive_gemini_cli_responses_are_joined(path: Path) -> None:
    thought = {"subject": "Plan", "description": "Look."}
    called = {"id": "c", "name": "ls", "args": {}, "result": [
        {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a"}}}]}  # fmt: skip
    [conversation] = conversations(
        path,
        {"sessionId": "s", "projectHash": "p"},
        chat("1", "user", "Look."),
        chat("2", "gemini", "I will.", thoughts=[thought]),
        chat("3", "warning", "Slow today."),
        chat("4", "gemini", "", toolCalls=[called]),
    )
    assert conversation.problems == []
    roles = [message.role for message in conversation.messages]
    assert roles == [Role.USER, Role.MODEL, Role.TOOL]
    assert conversation.messages[1].parts[0].thought == "Plan\nLook."


# --- pi ---


def pi_entry(
    number: str, parent: str | None, role: str, words: str, **fields: Any
) -> dict[str, Any]:
    content = [{"type": "text", "text": words}] if words else []
    line = {"type": "message", "id": number, "parentId": parent, "timestamp": "t"}
    return {**line, "message": {"role": role, "content": content, **fields}}


def test_pi_summaries_are_inserted_before_the_kept_messages(path: Path) -> None:
    [conversation] = conversations(
        path,
        {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"},
        pi_entry("1", None, "user", "Long ago."),
        pi_entry("2", "1", "assistant", "Yes."),
        pi_entry("x", "2", "user", "An inactive branch."),
        pi_entry("3", "2", "user", "Lately."),
        {"type": "compaction", "id": "4", "parentId": "3", "timestamp": "t",
         "summary": "In short.", "firstKeptEntryId": "3"},
        pi_entry("5", "4", "assistant", ""),
        pi_entry("6", "5", "user", "Now."),
    )  # fmt: skip
    assert texts(conversation) == ["Long ago.", "Yes.", "In short.", "Lately.", "Now."]
    assert conversation.compactions == [2]


def test_pi_answers_that_a_compaction_kept_have_no_usage(path: Path) -> None:
    """Their usage was reported for requests with the messages that the summary replaced."""
    [conversation] = conversations(
        path,
        {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/"},
        pi_entry("1", None, "user", "Long ago."),
        pi_entry("2", "1", "assistant", "Yes.", usage={"input": 90, "output": 1}),
        pi_entry("3", "2", "user", "Lately."),
        pi_entry("4", "3", "assistant", "Kept.", usage={"input": 95, "output": 1}),
        {"type": "compaction", "id": "5", "parentId": "4", "timestamp": "t",
         "summary": "In short.", "firstKeptEntryId": "3"},
        pi_entry("6", "5", "user", "Now."),
        pi_entry("7", "6", "assistant", "Right.", usage={
            "input": 1, "cacheRead": 20, "cacheWrite": 4, "output": 1}),
    )  # fmt: skip
    assert texts(conversation) == [
        "Long ago.", "Yes.", "In short.", "Lately.", "Kept.", "Now.", "Right.",
    ]  # fmt: skip
    assert [(usage.input_tokens, usage.position) for usage in conversation.usage] == [
        (90, 1), (25, 6),
    ]  # fmt: skip


def test_pi_results_of_one_response_are_one_message(path: Path) -> None:
    def call(number: int) -> dict[str, Any]:
        return {"type": "toolCall", "id": f"t{number}", "name": "ls", "arguments": {}}

    def result(number: int) -> dict[str, Any]:
        return {"type": "message", "timestamp": "t", "message": {
            "role": "toolResult", "toolCallId": f"t{number}", "isError": number == 2,
            "content": [{"type": "text", "text": "a"}]}}  # fmt: skip

    def speaks(role: str, content: list[Any]) -> dict[str, Any]:
        return {"type": "message", "timestamp": "t", "message": {"role": role, "content": content}}

    [conversation] = conversations(
        path,
        {"type": "session", "id": "s", "timestamp": "t", "cwd": "/"},
        speaks("user", [{"type": "text", "text": "Look."}]),
        speaks("assistant", [call(1), call(2)]),
        result(1),
        result(2),
    )
    assert conversation.problems == []
    first, second = conversation.messages[-1].function_responses
    assert (first.is_error, second.is_error) == (False, True)


# --- OpenHands ---


def test_openhands_parallel_calls_of_one_response_are_one_message(path: Path) -> None:
    response = {
        "id": "r",
        "usage": {"prompt_tokens": 40, "completion_tokens": 4},
        "choices": [
            {
                "message": {
                    "content": "Both.",
                    "tool_calls": [
                        {"id": call, "index": 0, "function": {"name": "run", "arguments": "{}"}}
                        for call in ("a", "b")
                    ],
                }
            }
        ],
    }

    def event(number: int, call: str, **fields: Any) -> dict[str, Any]:
        metadata = {"tool_call_id": call, "model_response": response}
        return {"id": number, "source": "agent", "tool_call_metadata": metadata, **fields}

    history = [
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Look."}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "Look."}},
        event(3, "a", action="run", args={"command": "ls a"}),
        event(4, "a", observation="run", cause=3, content="of a"),
        event(5, "b", action="run", args={"command": "ls b"}),
        event(6, "b", observation="run", cause=5, content="of b"),
        event(7, "z", action="finish", args={"final_thought": "Done."}),
    ]
    [conversation] = conversations(path, {"instance_id": "i", "history": history})
    assert conversation.problems == []
    assert conversation.name == "i"
    assert [item["role"] for item in data(conversation)] == [
        "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert [usage.position for usage in conversation.usage] == [1, 4]


def test_openhands_pairs_of_action_and_observation_are_read(path: Path) -> None:
    pair = [
        {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Hm."}},
        {"id": 3, "source": "agent", "observation": "run", "cause": 2, "content": "a"},
    ]
    ask = {"id": 1, "source": "user", "action": "message", "args": {"content": "Look."}}
    null = {"id": 0, "source": "user", "observation": "null", "content": ""}
    path.write_text(json.dumps([[ask, null], pair]))
    [conversation] = read(path)
    assert conversation.problems == []
    assert [message.role for message in conversation.messages] == [
        Role.USER,
        Role.MODEL,
        Role.TOOL,
    ]


def test_openhands_sdk_events_are_read(path: Path) -> None:
    def action(call: str) -> dict[str, Any]:
        return {"kind": "ActionEvent", "source": "agent", "thought": [], "tool_name": "terminal",
                "tool_call_id": call, "llm_response_id": "r",
                "tool_call": {"id": call, "name": "terminal", "arguments": "{}"}}  # fmt: skip

    text = [{"type": "text", "text": "a"}]
    [conversation] = conversations(
        path,
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": text[0], "tools": []},
        {"kind": "MessageEvent", "source": "user",
         "llm_message": {"role": "user", "content": text}},
        action("c1"),
        action("c2"),
        {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c1",
         "observation": {"content": text}},
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "c2", "error": "No."},
        {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "k"},
    )  # fmt: skip
    assert conversation.problems == []
    assert [item["role"] for item in data(conversation)] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip


# --- others ---


def test_tau2_tool_calls_of_the_simulated_user_are_skipped(path: Path) -> None:
    call = {"id": "u", "name": "restart_phone", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "user", "content": "My phone is slow."},
        {"role": "assistant", "content": "Restart it."},
        {"role": "user", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": "u", "content": "restarted", "requestor": "user"},
        {"role": "user", "content": "Done."},
    ]
    [conversation] = conversations(path, {"simulations": [{"task_id": "1", "messages": messages}]})
    assert texts(conversation) == ["My phone is slow.", "Restart it.", "Done."]


def test_swe_agent_steps_are_read_if_there_is_no_history(path: Path) -> None:
    step = {"action": "ls", "observation": "a.txt", "response": "I look.\nls"}
    [conversation] = conversations(path, {"environment": "e", "trajectory": [step]})
    assert texts(conversation) == ["I look.\nls", "a.txt"]


def test_http_exchanges_are_grouped_into_conversations(path: Path) -> None:
    def exchange(status: int, *words: str) -> dict[str, Any]:
        roles = ["user", "assistant"] * len(words)
        messages = [
            {"role": role, "content": word} for role, word in zip(roles, words, strict=False)
        ]
        return {"uri": "https://x.example/v1/messages", "request": {"messages": messages},
                "status": status, "response": {"usage": {"input_tokens": 9}}}  # fmt: skip

    first, second = conversations(
        path,
        exchange(200, "One?"),
        exchange(200, "Two?"),
        exchange(200, "One?", "Yes.", "Sure?"),
        exchange(400, "One?", "Yes.", "Sure?", ""),
    )
    assert texts(first) == ["One?", "Yes.", "Sure?"]
    assert texts(second) == ["Two?"]
    assert {first.messages.format, second.messages.format} == {"anthropic"}
    assert [usage.position for usage in first.usage] == [1, 3]


def test_qwen_lines_of_one_response_are_joined_and_rewinds_followed(path: Path) -> None:
    def line(uuid: str, parent: str | None, kind: str, *parts: Any, **more: Any) -> dict[str, Any]:
        record = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind}
        return {**record, "message": {"role": "user", "parts": list(parts)}, **more}

    [conversation] = conversations(
        path,
        line("1", None, "user", {"text": "Look."}),
        line("2", "1", "assistant", {"text": "Discarded."}),
        {"uuid": "3", "parentUuid": "1", "sessionId": "s", "type": "system", "subtype": "rewind",
         "systemPayload": {}},
        line("4", "3", "assistant", {"text": "Hm.", "thought": True}),
        line("4", "3", "assistant", {"text": "Seen."}, usageMetadata={"promptTokenCount": 5}),
    )  # fmt: skip
    assert texts(conversation) == ["Look.", "Seen."]
    assert [usage.position for usage in conversation.usage] == [1]


def test_qwen_thoughts_are_counted_once(path: Path) -> None:
    """With models of OpenAI's API, the candidates include the thoughts; with Gemini, they don't."""

    def line(uuid: str, parent: str | None, kind: str, **counts: int) -> dict[str, Any]:
        record = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind}
        return {**record, "message": {"parts": [{"text": uuid}]}, "usageMetadata": counts}

    [conversation] = conversations(
        path,
        line("1", None, "user"),
        line("2", "1", "assistant", promptTokenCount=100, cachedContentTokenCount=80,
             candidatesTokenCount=30, thoughtsTokenCount=20, totalTokenCount=130),
        line("3", "2", "user"),
        line("4", "3", "assistant", promptTokenCount=140, cachedContentTokenCount=100,
             candidatesTokenCount=10, thoughtsTokenCount=20, totalTokenCount=170),
        line("5", "4", "user"),
        line("6", "5", "assistant", promptTokenCount=180, candidatesTokenCount=10,
             thoughtsTokenCount=5),
    )  # fmt: skip
    assert [(usage.input_tokens, usage.output_tokens) for usage in conversation.usage] == [
        (100, 30), (140, 30), (180, 15),
    ]  # fmt: skip


def test_inspect_usage_without_ids_of_messages_is_skipped(path: Path) -> None:
    output = {"choices": [{"message": {}}], "usage": {"total_tokens": 60, "output_tokens": 10}}
    event = {"event": "model", "timestamp": "2026-01-01T00:00:00Z", "output": output}
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "Seen."}]
    sample = {"id": 1, "messages": messages, "events": [event]}
    [conversation] = conversations(path, {"eval": {"model": "m"}, "samples": [sample]})
    assert texts(conversation) == ["Look.", "Seen."]
    assert conversation.usage == []
    assert conversation.moments == []


def test_cline_files_and_results_are_converted_to_text(path: Path) -> None:
    attached = {"type": "file", "path": "a.txt", "content": "hello"}
    found = [{"query": "a", "result": "b", "success": True}]
    answered = {"type": "tool_result", "tool_use_id": "t", "name": "ls", "content": found}
    called = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    [conversation] = conversations(
        path,
        {"role": "user", "content": [attached], "ts": 1},
        {"role": "assistant", "content": [called], "ts": 2, "metrics": {"inputTokens": 5}},
        {"role": "user", "content": [answered], "ts": 3},
    )
    assert conversation.problems == []
    sent = data(conversation)
    assert all(set(item) == {"role", "content"} for item in sent)
    assert "hello" in sent[0]["content"][0]["text"]
    assert sent[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": '[{"query":"a","result":"b","success":true}]',
    }
