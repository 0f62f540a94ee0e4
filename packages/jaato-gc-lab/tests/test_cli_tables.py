"""Tests of tables on terminals of different widths."""

import json
from pathlib import Path

import pytest
from cli_samples import anthropic_request, run_on_a_terminal, without_colours, write_json

NAME = "session-of-the-night-shift-2026-11-18-at-the-northern-quay.json"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(Path(NAME), anthropic_request(20))
    write_json(Path("short.json"), anthropic_request(20))


COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "collect": (["collect", NAME, "--context-limit", "4k"], ["read_file src/module_0.py"]),
    "inspect": (["inspect", "short.json"], ["read_file src/module_0.py"]),
    "replay": (["replay", NAME, "short.json", "--context-limit", "4k"], [NAME, "short.json"]),
    "compare": (
        ["compare", NAME, "--context-limit", "4k", "--workers", "1"],
        ["gc_marksweep", "gc_summarize", "keep-last"],
    ),
    "check": (["check", NAME, "--context-limit", "4k", "--workers", "1"], ["gc_budget"]),
    "plugins": (["plugins"], ["gc_marksweep", "jaato-gc-summarize", "openai-responses"]),
    "config": (["config", "show"], ["preserve_recent_groups"]),
}
"""Commands with tables, and the names in them."""
COMPARE = COMMANDS["compare"][0]


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit_into_the_terminal_and_names_are_never_cut(command: str, columns: int) -> None:
    args, names = COMMANDS[command]
    code, output = run_on_a_terminal(*args, columns=columns)
    shown = without_colours(output)

    assert code == 0
    assert max(map(len, shown.splitlines())) <= columns
    # A name that is longer than the terminal is continued on the next line.
    joined = "".join(line.split("  ")[0].strip() for line in shown.splitlines())
    for name in names:
        assert name in shown or name in joined


def test_columns_that_do_not_fit_are_named_with_the_remedy() -> None:
    _, narrow = run_on_a_terminal(*COMPARE, columns=60)
    _, wide = run_on_a_terminal(*COMPARE, columns=120)

    said = " ".join(without_colours(narrow).split())
    assert "Not enough space for: " in said
    assert "time. A wider terminal or --json shows them." in said
    assert "Not enough space" not in wide


def test_json_has_the_columns_that_do_not_fit() -> None:
    _, shown = run_on_a_terminal(*COMPARE, "--json", columns=40)

    assert {"seconds", "collections", "input_tokens"} <= json.loads(shown)["summaries"][0].keys()
