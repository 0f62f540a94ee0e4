"""Loading files: detection, streaming, mixed formats and repair."""

import gzip
import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import PluginRegistry, Role
from jaato_gc_formats import (
    Conversation,
    FormatError,
    Usage,
    check_request,
    from_messages,
    iter_conversations,
    iter_messages,
    load,
    repaired,
    to_messages,
)

REGISTRY = PluginRegistry()
read = partial(load, registry=REGISTRY)

CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "What is here? ä"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
]


def lines(records: list[Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.mark.parametrize(
    "content",
    [
        lines(MESSAGES),
        lines(MESSAGES).rstrip(b"\n"),
        lines(MESSAGES).replace(b"\n", b"\r\n"),
        b"\n\n" + lines(MESSAGES).replace(b"\n", b"\n \n"),
        lines(MESSAGES).replace(b"\n", b""),
        json.dumps(MESSAGES).encode(),
        json.dumps(MESSAGES, indent=2).encode(),
        b"\xef\xbb\xbf" + json.dumps(MESSAGES, indent=2).encode(),
        b"\xef\xbb\xbf" + lines(MESSAGES),
        gzip.compress(lines(MESSAGES)),
        gzip.compress(lines(MESSAGES[:1])) + gzip.compress(lines(MESSAGES[1:])),
    ],
    ids=[
        "lines", "no last newline", "crlf", "blank lines", "glued", "array", "indented array",
        "array with BOM", "lines with BOM", "gzip", "gzip of two members",
    ],
)  # fmt: skip
def test_a_history_is_read_the_same_from_every_container(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    [conversation] = read(path)
    assert conversation.format == "openai-chat"
    assert conversation.problems == []
    assert from_messages(conversation.messages, registry=REGISTRY) == MESSAGES


@pytest.mark.parametrize("indent", [None, 2])
def test_a_request_in_a_file_is_written_back_unchanged(indent: int | None, path: Path) -> None:
    request = {"model": "m", "messages": MESSAGES, "tools": [{"type": "function"}]}
    path.write_text(json.dumps(request, indent=indent))
    [conversation] = read(path)
    assert from_messages(conversation.messages, registry=REGISTRY) == request


def test_each_line_with_a_request_is_a_conversation(path: Path) -> None:
    path.write_bytes(lines([{"model": "m", "messages": MESSAGES}] * 3))
    assert len(read(path)) == 3


def test_each_line_with_a_list_of_messages_is_a_conversation(path: Path) -> None:
    path.write_bytes(lines([MESSAGES, MESSAGES[:1], MESSAGES[:2]]))
    found = read(path)
    assert [(each.name, len(each.messages)) for each in found] == [
        ("line 1", 3),
        ("line 2", 1),
        ("line 3", 2),
    ]
    assert [problem.line for problem in found[2].problems] == [3]


def test_conversations_are_read_one_at_a_time(path: Path) -> None:
    runs = [{"task_id": number, "traj": MESSAGES} for number in range(30)]
    path.write_bytes(lines(runs) + b'{"task_id": 30, "tra')
    found = iter_conversations(path, registry=REGISTRY)
    first = [conversation.name for conversation in islice(found, 2)]
    assert first == ["task 0 trial 0", "task 1 trial 0"]
    with pytest.raises(FormatError, match="line 31: the JSON is truncated"):
        list(found)


def test_messages_are_read_one_at_a_time(path: Path) -> None:
    many = [{"role": "user", "content": f"Number {number}"} for number in range(100)]
    path.write_bytes(lines(many) + b"{broken\n")
    found = iter_messages(path, registry=REGISTRY)
    assert [message.text for message in islice(found, 3)] == ["Number 0", "Number 1", "Number 2"]
    with pytest.raises(FormatError, match="line 101"):
        list(found)


def test_streamed_results_have_the_name_of_their_tool(path: Path) -> None:
    path.write_bytes(lines(MESSAGES))
    *_, last = iter_messages(path, registry=REGISTRY)
    assert last.function_responses[0].name == "ls"


def test_array_elements_may_be_larger_than_the_read_buffer(path: Path) -> None:
    long = [{"role": "user", "content": f"{number}" * 300_000} for number in range(5)]
    path.write_text(json.dumps(long))
    [conversation] = read(path)
    assert from_messages(conversation.messages, registry=REGISTRY) == long


def test_a_message_in_another_api_format_is_an_error(path: Path) -> None:
    foreign = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}
    path.write_bytes(lines([*MESSAGES, foreign]))
    with pytest.raises(FormatError, match=r"line 4: .* format anthropic.*openai-chat"):
        read(path)
    [conversation] = read(path, repair=True)
    assert len(conversation.messages) == 3
    assert [problem.line for problem in conversation.problems] == [4]


def test_a_record_of_another_log_format_is_an_error(path: Path) -> None:
    claude = {"type": "user", "uuid": "1", "sessionId": "s", "message": {"content": "Hi"}}
    codex = {"type": "response_item", "timestamp": "t", "payload": MESSAGES[0]}
    path.write_bytes(lines([claude, codex]))
    with pytest.raises(FormatError, match="line 2: the record is in the format codex-rollout"):
        read(path)


def test_a_record_unlike_any_of_the_log_is_a_problem(path: Path) -> None:
    claude = {"type": "user", "uuid": "1", "sessionId": "s", "message": {"content": "Hi"}}
    path.write_bytes(lines([claude, {"temperature": 21}, {"type": "new", "sessionId": "s"}]))
    [conversation] = read(path)
    assert [problem.line for problem in conversation.problems] == [2]


def test_an_explicit_format_disables_detection(path: Path) -> None:
    path.write_bytes(lines([{"role": "user", "content": "Hi"}]))
    [conversation] = read(path, "anthropic")
    assert conversation.messages.format == "anthropic"
    with pytest.raises(FormatError, match="unknown format 'nope'"):
        read(path, "nope")


def test_problems_have_line_numbers(path: Path) -> None:
    path.write_bytes(b"\n" + lines([MESSAGES[0], MESSAGES[2]]))
    [conversation] = read(path)
    assert [(problem.line, "orphaned" in problem.what) for problem in conversation.problems] == [
        (3, True)
    ]


def test_every_skipped_record_is_a_problem(path: Path) -> None:
    path.write_bytes(lines(MESSAGES[:1]) + b"{broken\n42\n\xe9\n" + lines(MESSAGES[1:]))
    with pytest.raises(FormatError, match="line 2"):
        read(path)
    [conversation] = read(path, repair=True)
    assert [problem.line for problem in conversation.problems] == [2, 3, 4]
    assert from_messages(conversation.messages, registry=REGISTRY) == MESSAGES


# --- repair ---


def test_records_skipped_after_the_last_conversation_are_problems_of_it(path: Path) -> None:
    path.write_bytes(lines([{"messages": MESSAGES}] * 30) + b'{"messages": [')
    *others, last = read(path, repair=True)

    assert not any(conversation.problems for conversation in others)
    assert [(problem.line, "truncated" in problem.what) for problem in last.problems] == [
        (31, True)
    ]


def test_repair_adds_missing_results_and_removes_invalid_messages(path: Path) -> None:
    broken = [
        {"role": "assistant", "content": "Hi! How can I help?"},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None},
        {"role": "tool", "tool_call_id": "c9", "content": "no call"},
        MESSAGES[1],
        {"role": "user", "content": "And?"},
        MESSAGES[1],
    ]
    path.write_bytes(lines(broken))
    [conversation] = read(path)
    assert len(conversation.problems) == 4
    [after] = read(path, repair=True)
    assert after.problems == []
    data = from_messages(after.messages, registry=REGISTRY)
    assert check_request(data, "openai-chat", registry=REGISTRY) == []
    assert [item["role"] for item in data] == [
        "assistant", "user", "assistant", "tool", "user", "assistant", "tool",
    ]  # fmt: skip


def test_repair_adds_call_ids_and_removes_unsigned_thoughts() -> None:
    broken = [
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "tool_use", "name": "ls", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "content": "a.txt"}]},
        {"role": "assistant", "content": [{"type": "text", "text": ""}]},
    ]
    history = to_messages(broken, "anthropic", registry=REGISTRY)
    data = from_messages(repaired(history, registry=REGISTRY), registry=REGISTRY)
    assert check_request(data, "anthropic", registry=REGISTRY) == []
    assert "a.txt" in json.dumps(data)
    assert "Hm." not in json.dumps(data)


def test_repair_returns_a_valid_history_unchanged() -> None:
    history = to_messages(MESSAGES, registry=REGISTRY)
    assert repaired(history, registry=REGISTRY) is history


def test_problems_that_repair_cannot_fix_remain(path: Path) -> None:
    request = {"model": "m", "messages": [{"role": "assistant", "content": None}]}
    path.write_text(json.dumps(request))
    [conversation] = read(path, repair=True)
    assert conversation.problems


def test_repair_updates_the_positions_of_usage_and_compactions() -> None:
    history = to_messages(
        [
            {"role": "user", "content": "Look."},
            {"role": "tool", "tool_call_id": "c9", "content": "no call"},
            MESSAGES[1],
            {"role": "user", "content": "And?"},
        ],
        "openai-chat",
        registry=REGISTRY,
    )
    from jaato_gc_formats._repair import repair_conversation

    after = repair_conversation(
        Conversation("", "x", history, [], [Usage(9, 1, 2), Usage(12, 1, 4)], [3]),
        registry=REGISTRY,
    )
    roles = [message.role for message in after.messages]
    assert roles == [Role.USER, Role.MODEL, Role.TOOL, Role.USER]
    assert [usage.position for usage in after.usage] == [1, 4]
    assert after.compactions == [3]


def test_segments_split_a_conversation_at_its_compactions() -> None:
    history = to_messages(
        [{"role": "user", "content": str(number)} for number in range(6)], registry=REGISTRY
    )
    usage = [Usage(10, 1, 2), Usage(5, 1, 5)]
    whole = Conversation("talk", "x", history, [], usage, compactions=[3])
    first, second = whole.segments()
    assert [message.text for message in first.messages] == ["0", "1", "2"]
    assert [message.text for message in second.messages] == ["3", "4", "5"]
    assert (first.name, second.name) == ("talk#1", "talk#2")
    assert [each.position for each in first.usage] == [2]
    assert [each.position for each in second.usage] == [2]
