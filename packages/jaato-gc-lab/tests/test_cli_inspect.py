"""Tests of jaato-gc inspect."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_samples import (
    anthropic_request,
    chat_messages,
    claude_code_lines,
    run,
    write_gzip,
    write_json,
    write_lines,
)

from jaato_gc_formats import load
from jaato_gc_lab import sample_path
from jaato_gc_lab._inspect import inspect_conversation


def inspected(path: Path, *args: object) -> dict[str, Any]:
    result = run("inspect", path, "--json", *args)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    return write_json(tmp_path / "request.json", anthropic_request())


def test_inspect_prints_all_sections(request_file: Path) -> None:
    result = run("inspect", request_file)

    assert result.exit_code == 0
    headings = ("By source", "By role", "By tool", "By policy", "Largest messages", "Duplicates")
    assert [line for line in result.stdout.splitlines() if line in headings] == list(headings)
    assert "valid: a provider would accept it (anthropic)" in result.stdout
    assert "read_file" in result.stdout


def test_tokens_by_source_role_and_policy_add_up_to_the_total(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    assert sum(found["by_source"].values()) == found["tokens"]
    assert sum(found["by_policy"].values()) == found["tokens"]
    schemas = sum(tool["schema_tokens"] for tool in found["by_tool"])
    assert sum(found["by_role"].values()) == found["tokens"] - schemas
    assert found["by_source"]["tools"] == schemas > 0


def test_tokens_are_listed_by_source_role_and_tool(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    assert found["by_source"].keys() == {"system", "tools", "user", "model", "calls", "results"}
    assert found["by_role"].keys() == {"system", "user", "model", "tool"}
    [tool] = found["by_tool"]
    assert (tool["name"], tool["calls"]) == ("read_file", 6)
    assert tool["result_tokens"] > tool["call_tokens"] > 0
    assert found["by_policy"]["ephemeral"] > found["by_policy"]["locked"] > 0
    assert found["turns"] == 6


def test_largest_messages_come_first(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    sizes = [each["tokens"] for each in found["biggest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert found["biggest"][0]["what"] == "result of read_file src/module_0.py"
    assert found["biggest"][0]["role"] == "tool"


def test_files_read_again_later_are_superseded(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    kinds = [(each["kind"], each["about"]) for each in found["repeats"]]
    assert kinds == [("superseded", f"src/module_{n % 2}.py") for n in range(4)]
    assert found["repeated_tokens"] == sum(each["tokens"] for each in found["repeats"])


def test_same_text_from_different_calls_is_a_duplicate(tmp_path: Path) -> None:
    request = anthropic_request(2)
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["name"] = "search"
            elif block["type"] == "tool_result":
                block["content"] = "the same line again\n" * 20
    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    assert [each["kind"] for each in found["repeats"]] == ["duplicate"]


def test_partial_reads_are_superseded_only_by_a_read_of_the_whole_file(tmp_path: Path) -> None:
    request = anthropic_request(4)
    calls = [
        block
        for message in request["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] == "tool_use"
    ]
    for number, call in enumerate(calls):
        call["input"] = {"path": "a.py", "offset": number}
    results = [
        block
        for message in request["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] == "tool_result"
    ]
    for number, result in enumerate(results):
        result["content"] = f"part {number} " * 50
    file = write_json(tmp_path / "r.json", request)
    assert inspected(file)["conversations"][0]["repeats"] == []

    calls[3]["input"] = {"path": "a.py"}
    write_json(file, request)
    assert len(inspected(file)["conversations"][0]["repeats"]) == 3


def test_call_without_a_result_is_reported_as_a_problem(tmp_path: Path) -> None:
    request = anthropic_request(3)
    del request["messages"][2]  # the result of a call
    file = write_json(tmp_path / "request.json", request)

    [found] = inspected(file)["conversations"]
    shown = run("inspect", file).stdout

    assert not found["is_valid"]
    assert any("toolu_0" in problem["what"] for problem in found["problems"])
    assert "toolu_0" in shown
    assert re.search(r"message 2: .*read_file", shown)


def test_invalid_lines_are_listed_and_skipped(tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in claude_code_lines()]
    lines.insert(3, '{"type": "user", "mess')
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")

    result = run("inspect", file)

    assert result.exit_code == 0
    assert "- line 4: " in result.stdout
    assert "invalid lines were skipped" in result.stdout


@pytest.mark.parametrize("kind", ["request", "list", "lines", "gzip", "log"])
def test_inspect_reads_requests_lists_lines_gzip_and_logs(kind: str, tmp_path: Path) -> None:
    file = {
        "request": lambda: write_json(tmp_path / "a.json", anthropic_request(), indent=2),
        "list": lambda: write_json(tmp_path / "a.json", chat_messages()),
        "lines": lambda: write_lines(tmp_path / "a.jsonl", chat_messages()),
        "gzip": lambda: write_gzip(tmp_path / "a.json.gz", anthropic_request()),
        "log": lambda: write_lines(tmp_path / "a.jsonl", claude_code_lines()),
    }[kind]()

    result = run("inspect", file)

    assert result.exit_code == 0, result.stderr
    assert "about " in result.stdout
    if kind == "log":
        assert "claude-code, converted to anthropic" in result.stdout


def test_several_conversations_are_summarized_unless_one_is_chosen(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "r.jsonl", [anthropic_request(n) for n in (1, 2, 3)])

    summary = run("inspect", file).stdout
    third = run("inspect", file, "--conversation", 3).stdout

    assert "3 conversations" in summary
    assert "--conversation N" in summary
    assert "By source" not in summary
    assert "By source" in third
    assert "3 turns" in third
    assert len(inspected(file)["conversations"]) == 3
    assert [each["conversation"] for each in inspected(file, "-c", 2)["conversations"]] == [2]


def test_inspect_accepts_the_sample_run() -> None:
    result = run("inspect", sample_path())

    assert result.exit_code == 0
    assert "12 turns" in result.stdout
    assert "valid: a provider would accept it" in result.stdout


def test_empty_history_has_zero_tokens(tmp_path: Path) -> None:
    [conversation] = load(write_json(tmp_path / "r.json", anthropic_request()))
    conversation.messages.clear()
    conversation.messages.request = None

    assert inspect_conversation(conversation).tokens == 0
