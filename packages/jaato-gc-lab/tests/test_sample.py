"""Tests of the sample run."""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jaato_gc import EstimateCounter, count_tokens
from jaato_gc_formats import check_request, from_messages
from jaato_gc_lab import sample_conversation, sample_path

TOOLS = Path(__file__).parents[1] / "tools"
KEPT_NAME = "parse_manifest_row"
"""A function that must not be renamed, as the user decides in the second turn."""


class Used(NamedTuple):
    """A tool call of the sample, with its result and the number of its turn."""

    turn: int
    name: str
    input: dict[str, str]
    result: str

    @property
    def failed(self) -> bool:
        return self.result.startswith("error:")


def content() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(gzip.decompress(sample_path().read_bytes()))
    return data


def used_tools() -> Iterator[Used]:
    turn = 0
    calls: dict[str, dict[str, Any]] = {}
    for message in content()["messages"]:
        if isinstance(message["content"], str):
            turn += 1
            continue
        for block in message["content"]:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                call = calls[block["tool_use_id"]]
                yield Used(turn, call["name"], call["input"], block["content"])


def texts(role: str) -> list[tuple[int, str]]:
    """Returns what the user or the model says in plain text, with the number of its turn."""
    turn, found = 0, []
    for message in content()["messages"]:
        said = message["content"]
        turn += isinstance(said, str)
        blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
        if message["role"] == role:
            found += [(turn, block["text"]) for block in blocks if block["type"] == "text"]
    return found


def without_numbers(shown: str) -> str:
    return "".join(line.partition("\t")[2] + "\n" for line in shown.splitlines())


@pytest.mark.skipif(not TOOLS.is_dir(), reason="the folder tools is missing")
def test_sample_run_is_the_output_of_its_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    assert content() == import_module("make_sample").make()


def test_sample_run_is_valid_and_far_longer_than_a_small_window() -> None:
    sample = sample_conversation()
    answers = sum(message["role"] == "assistant" for message in content()["messages"])

    assert sample.problems == []
    assert check_request(from_messages(sample.messages), "anthropic") == []
    assert 100 <= answers <= 140
    assert 100_000 <= count_tokens(sample.messages) <= 200_000
    assert sample_path().stat().st_size < 150_000


def test_every_edit_applies_to_the_file_that_was_shown_and_every_read_shows_the_edits() -> None:
    files: dict[str, str] = {}
    edits = 0
    for used in used_tools():
        path = used.input.get("path", "")
        if used.name == "read_file":
            shown = without_numbers(used.result)
            assert files.setdefault(path, shown) == shown, path
        elif used.name == "write_file":
            files[path] = used.input["content"]
        elif used.name == "edit_file" and path in files:
            edits += 1
            old, new = used.input["old"], used.input["new"]
            assert (files[path].count(old) == 1) != used.failed, (path, old)
            if not used.failed:
                files[path] = files[path].replace(old, new)
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")

    assert edits >= 60


def test_decisions_of_the_second_turn_are_acted_on_and_named_late() -> None:
    decided = [text for turn, text in texts("user") if turn == 2]
    late = [(turn, text) for turn, text in texts("assistant") if turn >= 6]
    renamed = {
        used.input["old"].split("(")[0]
        for used in used_tools()
        if used.name == "edit_file" and used.input["old"].startswith("def parse_")
        and not used.input["new"].startswith(used.input["old"].split("(")[0])
    }  # fmt: skip

    assert KEPT_NAME in decided[0]
    assert "stored in UTC" in decided[0]
    assert any(KEPT_NAME in text and "customs team" in text for _, text in late)
    assert any("stored in UTC" in text for _, text in late)
    assert len(renamed) == 4
    assert f"def {KEPT_NAME}" not in renamed


def test_one_log_is_very_long_and_few_of_its_lines_matter() -> None:
    log = max((used.result for used in used_tools()), key=len)
    lines = log.splitlines()

    assert EstimateCounter().count_text(log) > 15_000
    assert 1 <= sum("ImportError: " in line for line in lines) < len(lines) / 20


def test_files_are_read_again_and_a_file_is_edited_long_after_it_was_read() -> None:
    used = list(used_tools())
    reads = Counter(each.input["path"] for each in used if each.name == "read_file")
    last_read = {each.input["path"]: each.turn for each in used if each.name == "read_file"}
    distances = [
        each.turn - last_read[each.input["path"]]
        for each in used
        if each.name == "edit_file" and each.input["path"] in last_read
    ]

    assert sum(count >= 4 for count in reads.values()) >= 4
    assert max(distances) >= 9


def test_failing_tests_are_fixed_in_the_same_turn() -> None:
    runs = [each for each in used_tools() if "pytest" in each.input.get("command", "")]
    last = {each.turn: each for each in runs}

    assert sum(" failed" in each.result.splitlines()[-1] for each in runs) >= 10
    assert not any(" failed" in each.result.splitlines()[-1] for each in last.values())
