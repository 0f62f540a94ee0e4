"""Tests of jaato-gc inspect."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import (
    HOSTILE,
    RAW,
    anthropic_request,
    chat_messages,
    claude_code_lines,
    run,
    write_gzip,
    write_json,
    write_lines,
)

from jaato_gc import GCPolicy, Message, Part
from jaato_gc_formats import load
from jaato_gc_lab import sample_path
from jaato_gc_lab._cli.inspect import POLICIES
from jaato_gc_lab._inspect import inspect_conversation


def inspected(path: Path, *args: object) -> dict[str, Any]:
    result = run("inspect", path, "--json", *args)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def picture(shown: str) -> list[str]:
    """Returns the lines of the bar and its legend."""
    return shown.split("\n\n")[1].splitlines()


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    return write_json(tmp_path / "request.json", anthropic_request())


def test_picture_has_every_source_and_tool_with_its_share(request_file: Path) -> None:
    result = run("inspect", request_file)

    assert result.exit_code == 0
    bar, again, *legend = picture(result.stdout)
    assert bar == again
    assert len(bar) == 80
    drawn = {line.split()[0][0]: line.split()[1] for line in legend}
    assert drawn.keys() == set(bar)
    assert list(drawn.values()) == ["read_file", "model", "user", "tool", "system"]
    shares = [float(share) for share in re.findall(r"([\d.]+)%", "\n".join(legend))]
    assert 99 <= sum(shares) <= 101


def test_window_shows_how_full_it_is(request_file: Path) -> None:
    tokens = inspected(request_file)["conversations"][0]["tokens"]

    half = run("inspect", request_file, "--context-limit", 2 * tokens).stdout
    twice = run("inspect", request_file, "-l", tokens // 2).stdout

    assert f"(50% of {2 * tokens:,})" in half
    assert picture(half)[0].count("·") == 40
    assert f"of {tokens // 2:,})" in twice
    mark = picture(twice)[2]
    assert (mark.strip(), len(mark)) == ("▲", 40)  # where the window ends


def test_many_tools_are_drawn_as_one_segment(tmp_path: Path) -> None:
    request = anthropic_request(20)
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["name"] = f"tool_{block['id']}"
    file = write_json(tmp_path / "r.json", request)

    shown = run("inspect", file).stdout
    slices = inspected(file)["conversations"][0]["slices"]

    assert "15 smaller" in shown
    assert len(slices) == 24


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


def test_every_policy_has_words() -> None:
    assert POLICIES.keys() == set(GCPolicy)


def test_slices_have_all_tokens(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    assert sum(each["tokens"] for each in found["slices"]) == found["tokens"]
    assert found["slices"][0]["kind"] == "tool"
    assert (found["slices"][0]["name"], found["slices"][0]["calls"]) == ("read_file", 6)


def test_largest_messages_come_first(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    sizes = [each["tokens"] for each in found["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    first = found["largest"][0]
    assert (first["tool"], first["about"]) == ("read_file", "src/module_0.py")
    assert (first["role"], first["turn"], first["more"]) == ("tool", 0, 0)


@pytest.mark.parametrize(
    ("tool", "arguments", "about"),
    [
        ("bash", {"command": "tail -n 60 app.log"}, "tail -n 60 app.log"),
        ("shell", {"command": ["bash", "-lc", "npm run build"]}, "npm run build"),
        ("editor", {"command": "view", "path": "./src/a.py"}, "src/a.py"),
        ("shell", {"command": "apply_patch <<E\n*** Update File: src/a.py\nE"}, "src/a.py"),
        ("grep", {"pattern": "harbour", "count": 3}, "harbour"),
        ("clock", {}, ""),
    ],
)
def test_call_is_named_after_its_command_or_path(
    tool: str, arguments: dict[str, Any], about: str, tmp_path: Path
) -> None:
    request = anthropic_request(1)
    request["messages"][1]["content"][1] |= {"name": tool, "input": arguments}

    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    assert (found["largest"][0]["tool"], found["largest"][0]["about"]) == (tool, about)


def test_message_with_several_results_is_named_after_the_largest(tmp_path: Path) -> None:
    request = anthropic_request(2)
    first, second = ([request["messages"][4 * n + m] for m in (1, 2)] for n in (0, 1))
    first[0]["content"] += second[0]["content"][1:]
    second[1]["content"][0]["content"] *= 3
    first[1]["content"] += second[1]["content"]
    del request["messages"][4:]

    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    assert (found["largest"][0]["about"], found["largest"][0]["more"]) == ("src/module_1.py", 1)


def test_files_read_again_without_a_change_are_duplicates(request_file: Path) -> None:
    [found] = inspected(request_file)["conversations"]

    # The last three calls are protected, as in a collection.
    assert [(each["kind"], each["about"]) for each in found["findings"]] == [
        ("duplicate", "src/module_0.py"),
        ("duplicate", "src/module_1.py"),
        ("duplicate", "src/module_0.py"),
    ]
    for each in found["findings"]:
        assert (each["strategy"], each["reason"]) == ("every strategy", "identical")
        assert 0 < each["freed_tokens"] < each["tokens"]
    assert found["freeable_tokens"] == sum(each["freed_tokens"] for each in found["findings"])


def test_gc_marksweep_frees_as_much_as_the_findings_say() -> None:
    [found] = inspected(sample_path())["conversations"]
    after = found["tokens"] - found["freeable_tokens"]

    result = run(
        "collect", sample_path(), "--strategy", "marksweep", "--json",
        "--context-limit", 10 * after, "--target", "10%",
    )  # fmt: skip

    collected = json.loads(result.stdout)["result"]
    assert collected["tokens_after"] == after
    reasons = {item["reason"] for item in collected["removal_list"]}
    assert reasons == {each["reason"] for each in found["findings"]} - {None}


def test_same_text_from_different_calls_is_a_duplicate(tmp_path: Path) -> None:
    request = anthropic_request(5)
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block |= {"name": "search", "input": {"query": block["id"]}}
            elif block["type"] == "tool_result":
                block["content"] = "the same line again\n" * 40
    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    assert [each["kind"] for each in found["findings"]] == ["duplicate", "duplicate"]


def test_partial_reads_are_superseded_only_by_a_read_of_the_whole_file(tmp_path: Path) -> None:
    request = anthropic_request(6)
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
        result["content"] = f"part {number} " * 100
    file = write_json(tmp_path / "r.json", request)
    assert inspected(file)["conversations"][0]["findings"] == []

    calls[5]["input"] = {"path": "a.py"}
    write_json(file, request)
    kinds = [each["kind"] for each in inspected(file)["conversations"][0]["findings"]]
    assert kinds == ["superseded"] * 3


def edited(number: int, path: str = "src/module_0.py") -> list[dict[str, Any]]:
    call = {"path": path, "old_string": "from harbour", "new_string": "from quay"}
    return [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": f"edit_{number}", "name": "edit_file", "input": call}
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"edit_{number}", "content": "done"}
            ],
        },
    ]


def test_read_of_a_file_that_is_edited_later_is_stale_but_no_rule_frees_it(tmp_path: Path) -> None:
    request = anthropic_request(1)
    request["messages"][3:3] = edited(1)
    file = write_json(tmp_path / "r.json", request)

    [found] = inspected(file)["conversations"]

    [stale] = found["findings"]
    assert (stale["kind"], stale["about"]) == ("stale", "src/module_0.py")
    assert (stale["strategy"], stale["reason"], stale["freed_tokens"]) == (None, None, 0)
    shown = run("inspect", file).stdout
    assert f"Stale reads: 1 result, {stale['tokens']:,} tokens of files edited later" in shown


def test_read_of_a_file_that_was_edited_before_is_not_stale(tmp_path: Path) -> None:
    request = anthropic_request(1)
    request["messages"][1:1] = edited(1)

    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    assert found["findings"] == []


def test_repeated_lines_are_listed_with_what_they_free(tmp_path: Path) -> None:
    request = anthropic_request(5)
    results = [
        block
        for message in request["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
        if block["type"] == "tool_result"
    ]
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["input"] = {"path": f"{block['id']}.py"}
    for number, result in enumerate(results):
        result["content"] = "\n".join(f"value_{number}_{line} = {line}" for line in range(50))
    results[4]["content"] += "\n" + results[0]["content"]

    [found] = inspected(write_json(tmp_path / "r.json", request))["conversations"]

    [repeated] = found["findings"]
    assert (repeated["kind"], repeated["about"]) == ("repeated", "toolu_0.py")
    assert repeated["reason"] == "cleared_repeated"
    assert 0.8 * repeated["tokens"] < repeated["freed_tokens"] < repeated["tokens"]


def test_second_result_of_a_call_has_no_findings_of_its_own(tmp_path: Path) -> None:
    [conversation] = load(write_json(tmp_path / "r.json", anthropic_request(5)))
    first, last = (conversation.messages[at] for at in (3, -2))
    lines = "\n".join(f"value_{line} = {line}" for line in range(80))

    def result(message: Message, text: str) -> Part:
        answer = message.function_responses[0]
        return Part(function_response=replace(answer, result=text))

    conversation.messages[3] = first.with_parts([result(first, "ok"), result(first, lines)])
    conversation.messages[-2] = last.with_parts([result(last, lines)])

    found = inspect_conversation(conversation)

    assert not found.is_valid
    assert "cleared_repeated" not in {each.reason for each in found.findings}


def test_sections_without_findings_share_one_line(tmp_path: Path) -> None:
    shown = run("inspect", write_json(tmp_path / "r.json", anthropic_request(1))).stdout

    assert (
        "None found: superseded, duplicates, failed attempts, repeated lines, long\n"
        "results, stale reads.\n" in shown
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_names_are_never_cut(
    width: int, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_width(width, monkeypatch)

    lines = run("inspect", request_file).stdout.splitlines()

    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("read_file src/module_0.py") >= 2


@pytest.mark.parametrize("width", [40, 60])
def test_name_longer_than_a_line_continues_in_the_next(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_width(width, monkeypatch)
    path = "src/" + "very/" * 20 + "deep.py"
    request = anthropic_request(5)
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["input"] = {"path": path}

    shown = run("inspect", write_json(tmp_path / "r.json", request)).stdout

    assert max(map(len, shown.splitlines())) <= width
    assert path in re.sub(r"\s", "", shown)


def use_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaato_gc_lab._cli._drawing.width", lambda: width)


@pytest.mark.parametrize("width", [60, 80])
def test_short_commands_are_shown_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_width(width, monkeypatch)

    shown = " ".join(run("inspect", sample_path()).stdout.split())

    commands = [
        each["about"]
        for each in inspected(sample_path())["conversations"][0]["largest"][:5]
        if each["tool"] == "run_command"
    ]
    assert len(commands) > 1
    assert all(f"run_command {command} " in shown for command in commands)


def test_sample_run_fits_on_a_page() -> None:
    lines = run("inspect", sample_path()).stdout.splitlines()

    assert len(lines) <= 55
    assert max(map(len, lines)) <= 80


def test_hostile_names_are_shown_literally(tmp_path: Path) -> None:
    request = anthropic_request(5)
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block |= {"name": "[red]read[/]", "input": {"path": f"[bold]{HOSTILE}.py"}}

    shown = run("inspect", write_json(tmp_path / "r.json", request)).stdout

    assert "[red]read[/]" in shown
    assert "[bold]" in shown
    assert not any(character in shown for character in RAW)


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
    assert "Invalid lines were skipped" in result.stdout


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
    assert "Largest messages" not in summary
    assert "Largest messages" in third
    assert "3 turns" in third
    assert len(inspected(file)["conversations"]) == 3
    assert [each["conversation"] for each in inspected(file, "-c", 2)["conversations"]] == [2]


def test_inspect_accepts_the_sample_run() -> None:
    result = run("inspect", sample_path())

    assert result.exit_code == 0
    assert "12 turns" in result.stdout
    assert "Valid: a provider would accept it" in result.stdout


def test_empty_history_has_zero_tokens(tmp_path: Path) -> None:
    [conversation] = load(write_json(tmp_path / "r.json", anthropic_request()))
    conversation.messages.clear()
    conversation.messages.request = None

    assert inspect_conversation(conversation).tokens == 0
