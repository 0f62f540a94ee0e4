"""The times at which logs recorded the model's answers."""

import gzip
import json
import os
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry
from jaato_gc_formats import Conversation, FormatError, Moment, iter_messages, load, to_messages

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)

TRANSCRIPTS = Path(
    os.environ.get("JAATO_GC_TRANSCRIPTS") or Path(__file__).parents[4] / "shared" / "transcripts"
)
needs_transcripts = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)

START = 1767225600
"""2026-01-01T00:00:00Z."""
CLAUDE_CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
CLAUDE_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def conversations(path: Path, *records: Any) -> list[Conversation]:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return read(path)


def moments(conversation: Conversation) -> list[tuple[float, int]]:
    """Returns the seconds since `START` and the position of each moment."""
    return [(moment.at - START, moment.position) for moment in conversation.moments]


def at(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}.000Z"


def claude(
    kind: str, uuid: str, parent: str | None, content: Any, seconds: int, **fields: Any
) -> dict[str, Any]:
    message = {"role": kind, "content": content, **fields.pop("message", {})}
    line = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", **fields}
    return {**line, "timestamp": at(seconds), "message": message}


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


def chat(message_id: str, kind: str, content: str, seconds: int, **fields: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": at(seconds), "type": kind, "content": content, **fields}


def codex(seconds: int, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": at(seconds), "type": kind, "payload": payload}


def codex_message(seconds: int, role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": words}]
    return codex(seconds, "response_item", type="message", role=role, content=content)


def codex_usage(seconds: int, tokens: int, total: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cached_input_tokens": 5, "output_tokens": 1}
    info = {"last_token_usage": usage, "total_token_usage": {"input_tokens": total}}
    return codex(seconds, "event_msg", type="token_count", info=info)


# --- every format that records times ---

RESPONSE = {"id": "r", "choices": [{"message": {"role": "assistant", "content": "Seen."}}]}
CHAT_CALL = {"id": "c", "function": {"name": "ls", "arguments": "{}"}}

LOGS: dict[str, tuple[list[Any], list[tuple[float, int]]]] = {
    "antigravity": (
        [
            {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": "Look.",
             "created_at": at(0)},
            {"step_index": 1, "source": "MODEL", "type": "PLANNER_RESPONSE", "created_at": at(1),
             "tool_calls": [{"name": "list_dir", "args": {}}, {"name": "list_dir", "args": {}}]},
            {"step_index": 2, "source": "MODEL", "type": "LIST_DIRECTORY", "content": "a",
             "created_at": at(2)},
            {"step_index": 3, "source": "MODEL", "type": "LIST_DIRECTORY", "content": "b",
             "created_at": at(3)},
            {"step_index": 4, "source": "MODEL", "type": "PLANNER_RESPONSE", "content": "Seen.",
             "created_at": at(4)},
        ],
        [(1, 1), (4, 4)],
    ),
    "claude-code": (
        [
            claude("user", "1", None, "Look.", 0),
            claude("assistant", "2", "1", text("So."), 1, message={"id": "m"}),
            claude("assistant", "3", "2", [CLAUDE_CALL], 5, message={"id": "m"}),
            claude("user", "4", "3", [CLAUDE_RESULT], 6),
            claude("assistant", "5", "4", text("Seen."), 400, message={"id": "n"}),
        ],
        [(1, 1), (400, 3)],
    ),
    "cline": (
        [
            {"role": "user", "content": text("Look."), "ts": START * 1000},
            {"role": "assistant", "content": text("Seen."), "ts": START * 1000 + 1500},
        ],
        [(1.5, 1)],
    ),
    "codex-rollout": (
        [
            codex(0, "session_meta", id="s", instructions="Be brief."),
            codex_message(1, "user", "Look."),
            codex(2, "response_item", type="reasoning", summary=[], encrypted_content="x"),
            codex(9, "response_item", type="function_call", call_id="c", name="ls"),
            codex_usage(9, 20, 20),
            codex(10, "response_item", type="function_call_output", call_id="c", output="a"),
            codex_message(12, "assistant", "Seen."),
        ],
        [(2, 2), (12, 4)],
    ),
    "gemini-cli": (
        [
            {
                "sessionId": "s",
                "projectHash": "p",
                "messages": [
                    chat("1", "user", "Look.", 0),
                    chat("2", "gemini", "I will.", 3),
                    chat("3", "info", "Slow today.", 4),
                    chat("4", "gemini", "Seen.", 5),  # joined with the previous one
                    chat("5", "user", "And?", 6),
                    chat("6", "gemini", "Nothing.", 7),
                ],
            }
        ],
        [(3, 1), (7, 3)],
    ),
    "http-exchange": (
        [
            {"uri": "https://x.example/v1/chat/completions", "status": 200,
             "request": {"messages": [{"role": "user", "content": "Look."}]},
             "response": {"created": START + 3, "choices": []}},
            {"uri": "https://x.example/v1/chat/completions", "status": 200,
             "request": {"messages": [{"role": "user", "content": "Look."},
                                      {"role": "assistant", "content": "Seen."},
                                      {"role": "user", "content": "And?"}]},
             "response": {"string": f'data: {{"created": {START + 8}}}\n\ndata: [DONE]\n'}},
        ],
        [(3, 1), (8, 3)],
    ),
    "inspect": (
        [
            {
                "eval": {"model": "m"},
                "samples": [
                    {
                        "id": 1,
                        "messages": [
                            {"role": "user", "content": "Look."},
                            {"id": "m2", "role": "assistant", "content": "Seen."},
                            {"role": "user", "content": "And?"},
                            {"id": "m4", "role": "assistant", "content": "Nothing."},
                        ],
                        "events": [
                            {"event": "model", "timestamp": "2025-12-31T19:00:01-05:00",
                             "completed": "2025-12-31T19:00:04-05:00",
                             "output": {"choices": [{"message": {"id": "m2"}}]}},
                            {"event": "model", "timestamp": "2025-12-31T19:00:06-05:00",
                             "output": {"choices": [{"message": {"id": "m4"}}]}},
                        ],
                    }
                ],
            }
        ],
        [(4, 1), (6, 3)],
    ),
    "litellm": (
        [{"messages": [{"role": "user", "content": "Look."}], "timestamp": START + 2.5,
          "response": {**RESPONSE, "created": START + 2}}],
        [(2.5, 1)],
    ),
    "openhands": (
        [
            {"id": 0, "timestamp": "2026-01-01T00:00:00.5", "source": "agent", "action": "system",
             "args": {"content": "Be brief."}},
            {"id": 1, "timestamp": "2026-01-01T00:00:01", "source": "user", "action": "message",
             "args": {"content": "Look."}},
            {"id": 2, "timestamp": "2026-01-01T00:00:02", "source": "agent", "action": "run",
             "args": {"command": "ls"}},
            {"id": 3, "timestamp": "2026-01-01T00:00:03", "source": "agent", "observation": "run",
             "cause": 2, "content": "a"},
            {"id": 4, "timestamp": "2026-01-01T00:00:04", "source": "agent", "action": "run",
             "args": {"command": "ls"}, "tool_call_metadata": {"tool_call_id": "c",
             "model_response": {"id": "r", "choices": [{"message": {"tool_calls": [CHAT_CALL]}}]}}},
            {"id": 5, "timestamp": "2026-01-01T00:00:05", "source": "agent", "observation": "run",
             "cause": 4, "content": "a", "tool_call_metadata": {"tool_call_id": "c"}},
            {"id": 6, "timestamp": "2026-01-01T00:00:06", "source": "agent", "action": "finish",
             "args": {"final_thought": "Seen."}},
        ],
        [(2, 2), (4, 4), (6, 6)],
    ),
    "pi": (
        [
            {"type": "session", "version": 3, "id": "s", "timestamp": at(0), "cwd": "/"},
            {"type": "message", "id": "1", "parentId": None, "timestamp": at(1),
             "message": {"role": "user", "content": text("Look.")}},
            {"type": "message", "id": "2", "parentId": "1", "timestamp": at(9), "message": {
                "role": "assistant", "content": text("Seen."), "timestamp": START * 1000 + 2000}},
            {"type": "message", "id": "3", "parentId": "2", "timestamp": at(10),
             "message": {"role": "user", "content": text("And?")}},
            {"type": "message", "id": "4", "parentId": "3", "timestamp": at(11),
             "message": {"role": "assistant", "content": []}},
        ],
        [(9, 1)],
    ),
    "qwen-code": (
        [
            {"uuid": "1", "parentUuid": None, "sessionId": "s", "type": "user",
             "timestamp": at(0), "message": {"parts": [{"text": "Look."}]}},
            {"uuid": "2", "parentUuid": "1", "sessionId": "s", "type": "assistant",
             "timestamp": at(3), "message": {"parts": [{"text": "Hm.", "thought": True}]}},
            {"uuid": "2", "parentUuid": "1", "sessionId": "s", "type": "assistant",
             "timestamp": at(8), "message": {"parts": [{"text": "Seen."}]}},
        ],
        [(3, 1)],
    ),
    "role-lines": (
        [
            {"timestamp": at(0), "role": "user", "content": "Look."},
            {"timestamp": at(1), "type": "tool_call", "name": "ls"},
            {"timestamp": at(2), "type": "tool_call", "name": "ls"},
            {"timestamp": at(3), "type": "tool_result", "name": "ls", "result": "a"},
            {"timestamp": at(4), "type": "tool_result", "name": "ls", "result": "a"},
            {"timestamp": at(5), "role": "assistant", "content": "Seen."},
        ],
        [(1, 1), (5, 4)],
    ),
    "tau2": (
        [
            {"simulations": [{"task_id": "1", "messages": [
                {"role": "user", "content": "Help!", "timestamp": "2026-01-01T00:00:01"},
                {"role": "assistant", "content": "How?", "timestamp": "2026-01-01T00:00:02"},
            ]}]},
        ],
        [(2, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_each_answer_has_the_time_of_its_first_record(name: str, path: Path) -> None:
    records, expected = LOGS[name]
    [conversation] = conversations(path, *records)
    assert conversation.format == name
    assert moments(conversation) == expected


@pytest.mark.parametrize("name", LOGS)
def test_times_do_not_change_the_messages_that_are_streamed(name: str, path: Path) -> None:
    [conversation] = conversations(path, *LOGS[name][0])
    streamed = iter_messages(path, registry=REGISTRY)
    assert [message.parts for message in streamed] == [
        message.parts for message in conversation.messages
    ]


def test_openhands_sdk_answers_have_the_time_of_their_first_action(path: Path) -> None:
    def action(call: str, time: str) -> dict[str, Any]:
        made = {"tool_name": "ls", "tool_call_id": call, "tool_call": {"id": call}}
        event = {"kind": "ActionEvent", "source": "agent", "llm_response_id": "r"}
        return {**event, "timestamp": time, **made}

    def message(role: str, time: str) -> dict[str, Any]:
        said = {"role": role, "content": text("a")}
        return {"kind": "MessageEvent", "source": role, "timestamp": time, "llm_message": said}

    [conversation] = conversations(
        path,
        message("user", "2026-01-01T00:00:00"),
        action("c1", "2026-01-01T00:00:01"),
        action("c2", "2026-01-01T00:00:02"),
        {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c1",
         "timestamp": "2026-01-01T00:00:03", "observation": {"content": text("a")}},
        {"kind": "ObservationEvent", "source": "environment", "tool_call_id": "c2",
         "timestamp": "2026-01-01T00:00:04", "observation": {"content": text("a")}},
        message("assistant", "2026-01-01T00:00:05"),
    )  # fmt: skip
    assert moments(conversation) == [(1, 1), (5, 4)]


# --- values that are times, and others ---


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:00.000000000Z",
        "2026-01-01 00:00:00",
        "2026-01-01T01:30:00+01:30",
        "20260101T000000Z",
        " 2026-01-01T00:00:00 ",
        START,
        float(START),
        START * 1000,
        START * 1000.0,
    ],
)
def test_times_are_iso_8601_or_seconds_or_milliseconds(value: Any, path: Path) -> None:
    asked = {"timestamp": at(0), "role": "user", "content": "Look."}
    said = {"timestamp": value, "role": "assistant", "content": "Seen."}
    [conversation] = conversations(path, asked, said)
    assert conversation.moments == [Moment(START, 1)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "t",
        "yesterday",
        "2026-01-01",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "1767225600",
        "\ud800",
        True,
        0,
        7,
        -START,
        START / 1000,
        START * 1000 * 1000,
        10**400,
        float("nan"),
        float("inf"),
        [START],
        {"at": START},
    ],
    ids=repr,
)
def test_an_answer_without_a_valid_time_has_no_moment(value: Any, path: Path) -> None:
    asked = {"timestamp": at(0), "role": "user", "content": "Look."}
    said = {"timestamp": value, "role": "assistant", "content": "Seen."}
    again = {"timestamp": at(5), "role": "assistant", "content": "Nothing."}
    [conversation] = conversations(path, asked, said, asked, again)
    assert moments(conversation) == [(5, 3)]


# --- branches, subagents, repeated and synthetic answers ---


def test_each_claude_code_subagent_has_its_own_moments(path: Path) -> None:
    main, agent = conversations(
        path,
        claude("user", "1", None, "Delegate.", 0),
        claude("assistant", "2", "1", [CLAUDE_CALL], 1),
        claude("user", "s1", None, "Search.", 2, isSidechain=True, agentId="a"),
        claude("assistant", "s2", "s1", text("Found."), 3, isSidechain=True, agentId="a"),
        claude("user", "3", "2", [CLAUDE_RESULT], 4),
        claude("assistant", "4", "3", text("Done."), 5),
    )
    assert moments(main) == [(1, 1), (5, 3)]
    assert moments(agent) == [(3, 1)]


def test_claude_code_answers_outside_the_active_branch_have_no_moments(path: Path) -> None:
    [conversation] = conversations(
        path,
        claude("user", "1", None, "Look.", 0),
        claude("assistant", "2", "1", text("Discarded."), 1),
        claude("user", "3", None, "Look here.", 2),
        claude("assistant", "4", "3", text("Seen."), 3),
    )
    assert moments(conversation) == [(3, 1)]


def test_answers_that_claude_code_writes_itself_have_no_moments(path: Path) -> None:
    [conversation] = conversations(
        path,
        claude("user", "1", None, "Look.", 0),
        claude("assistant", "2", "1", text("No response requested."), 1, message={
            "id": "m", "model": "<synthetic>", "usage": {"input_tokens": 0}}),
        claude("user", "3", "2", "Look.", 2),
        claude("assistant", "4", "3", text("Seen."), 3, message={"id": "n", "model": "claude"}),
    )  # fmt: skip
    assert moments(conversation) == [(3, 3)]


def test_gemini_cli_answers_that_a_compaction_repeats_are_counted_once(path: Path) -> None:
    first = chat("2", "gemini", "Seen.", 1, tokens={"input": 90, "output": 1})
    second = chat("4", "gemini", "Nothing.", 3, tokens={"input": 95, "output": 1})
    asked = chat("3", "user", "And?", 2)
    [conversation] = conversations(
        path,
        {"sessionId": "s", "projectHash": "p"},
        chat("1", "user", "Look.", 0),
        first,
        asked,
        second,
        {"$set": {"messages": [chat("5", "user", "In short.", 4), first, asked, second]}},
        chat("6", "user", "Go on.", 5),
        chat("7", "gemini", "Right.", 6, tokens={"input": 20, "output": 1}),
    )
    assert moments(conversation) == [(1, 1), (3, 3), (6, 9)]
    assert [(usage.input_tokens, usage.position) for usage in conversation.usage] == [
        (90, 1), (95, 3), (20, 9),
    ]  # fmt: skip


def test_consecutive_codex_answers_are_one_message_with_the_first_time(path: Path) -> None:
    [conversation] = conversations(
        path,
        codex_message(0, "user", "Look."),
        codex_message(1, "assistant", "I will."),
        codex_usage(1, 20, 20),
        codex_message(4, "assistant", "Seen."),
        codex_usage(4, 30, 50),
    )
    assert len(conversation.messages) == len(list(iter_messages(path, registry=REGISTRY))) == 2
    assert moments(conversation) == [(1, 1)]
    assert [(usage.input_tokens, usage.position) for usage in conversation.usage] == [(20, 1)]


def test_a_usage_report_that_codex_repeats_is_not_that_of_the_answer(path: Path) -> None:
    [conversation] = conversations(
        path,
        codex_message(0, "user", "Look."),
        codex_message(1, "assistant", "Seen."),
        codex_usage(1, 20, 20),
        codex_message(2, "user", "And?"),
        codex(3, "response_item", type="reasoning", summary=[], encrypted_content="x"),
        codex_usage(3, 20, 20),
        codex(3, "event_msg", type="token_count", info=None),
        codex_message(4, "assistant", "Nothing."),
        codex_usage(4, 30, 50),
    )
    assert moments(conversation) == [(1, 1), (3, 3)]
    assert [(usage.input_tokens, usage.position) for usage in conversation.usage] == [
        (20, 1), (30, 3),
    ]  # fmt: skip


def test_http_exchanges_out_of_order_have_moments_by_position(path: Path) -> None:
    def exchange(seconds: int, *words: str) -> dict[str, Any]:
        roles = ["user", "assistant"] * len(words)
        items = [{"role": role, "content": word} for role, word in zip(roles, words, strict=False)]
        usage = {"prompt_tokens": 10 * len(words)}
        return {"uri": "https://x.example/v1/chat/completions", "request": {"messages": items},
                "response": {"created": START + seconds, "usage": usage}}  # fmt: skip

    [conversation] = conversations(
        path,
        exchange(1, "One?", "Yes.", "Sure?"),
        exchange(2, "One?"),
        exchange(3, "One?", "Yes.", "Sure?", "Yes.", "Why?"),
    )
    assert moments(conversation) == [(2, 1), (1, 3), (3, 5)]
    assert [usage.position for usage in conversation.usage] == [1, 3, 5]


# --- moments of conversations that are changed ---


def test_segments_have_the_moments_of_their_answers() -> None:
    history = to_messages(
        [{"role": "assistant", "content": str(number)} for number in range(6)], registry=REGISTRY
    )
    recorded = [Moment(START + position, position) for position in (0, 2, 3, 5, 6)]
    whole = Conversation("talk", "x", history, compactions=[3], moments=recorded)
    first, second = whole.segments()
    assert moments(first) == [(0, 0), (2, 2)]
    assert moments(second) == [(3, 0), (5, 2), (6, 3)]


def test_repair_updates_the_positions_of_moments(path: Path) -> None:
    path.write_text(
        "".join(
            json.dumps(record) + "\n"
            for record in (
                claude("user", "1", None, "Look.", 0),
                claude("user", "2", "1", [CLAUDE_RESULT], 1),  # its call is missing
                claude("assistant", "3", "2", text("Seen."), 2),
            )
        )
    )
    [broken] = read(path)
    [repaired] = read(path, repair=True)
    assert (moments(broken), len(broken.messages)) == ([(2, 2)], 3)
    assert (moments(repaired), len(repaired.messages)) == ([(2, 1)], 2)


# --- real logs ---

TIME_FIELD = re.compile(r'"(?:timestamp|ts|created|created_at)": ?"?([\d.:TZ+-]+)')


def goes_back(path: Path) -> bool:
    """Returns whether times of the log itself are not in order."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        times = TIME_FIELD.findall(file.read())
    return any(later < earlier for earlier, later in pairwise(times))


@needs_transcripts
def test_moments_of_real_logs_are_in_order_and_inside_the_conversation() -> None:
    formats_with_moments = set()
    for path in sorted(TRANSCRIPTS.rglob("*.*")):
        try:
            found = read(path) if path.is_file() else []
        except FormatError:  # not every file contains a conversation
            continue
        for conversation in found:
            positions = [moment.position for moment in conversation.moments]
            times = [moment.at for moment in conversation.moments]
            assert positions == sorted(positions), path
            assert all(0 <= each <= len(conversation.messages) for each in positions), path
            assert times == sorted(times) or goes_back(path), path
            formats_with_moments |= {conversation.format} if times else set()
    assert {"claude-code", "codex-rollout", "gemini-cli", "pi"} <= formats_with_moments
