"""Tests of last lines, prices, overwriting, and help of groups."""

import json
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from cli_samples import (
    anthropic_request,
    chat_messages,
    run,
    run_on_a_terminal,
    without_colours,
    write_json,
)

from jaato_gc_lab import load_prices

ONE = ("--workers", "1")
TIME = r"\d+(\.\d+)?(ms|s|min)"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(Path("one.json"), anthropic_request(8))
    write_json(Path("two.json"), chat_messages(8))


def request_of(model: str | None) -> dict[str, Any]:
    data = anthropic_request(8)
    if model is None:
        del data["model"]
    else:
        data["model"] = model
    return data


def session_of(*models: str | None) -> list[dict[str, Any]]:
    """Returns the lines of a Claude Code session whose answers name the models in turn."""
    named = cycle(models)
    return [
        {
            "type": message["role"],
            "uuid": str(number),
            "parentUuid": str(number - 1) if number else None,
            "sessionId": "s",
            "message": {**message, "model": next(named)}
            if message["role"] == "assistant"
            else message,
        }
        for number, message in enumerate(anthropic_request(8)["messages"])
    ]


def write_log(log: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Writes a request as JSON, or the lines of a session."""
    lines = log if isinstance(log, list) else [log]
    Path("log.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


# --- the last line ---


@pytest.mark.parametrize(
    ("args", "end"),
    [
        (["compare", "one.json", "two.json", "-l", "2k", "--keep-turns", "1", *ONE],
         r"2 runs, 14 replays in TIME\. All requests fit with every strategy\."),
        (["compare", "one.json", "-s", "budget", "-l", "1M", *ONE],
         r"1 run, 3 replays in TIME\. All requests fit, also without collection\."),
        (["replay", "one.json", "-l", "2k", "--keep-turns", "1"],
         r"1 run, 16 requests in TIME\. All requests fit\."),
        (["replay", "one.json", "-l", "2k", "-s", "none"],
         r"1 run, 16 requests in TIME\. \d+ of 16 requests do not fit\."),
        (["check", "one.json", "-l", "2k", *ONE],
         r"1 run, 3 replays in TIME\. All limits are met\."),
        (["check", "one.json", "-l", "2k", "-s", "none", *ONE],
         r"1 run, 2 replays in TIME\. Not met: 1 of 2 limits\. See the rows marked FAILED\."),
        (["report", "one.json", "-s", "budget", "-l", "2k", *ONE],
         r"1 run, 3 replays in TIME\. All requests fit with every strategy\."),
        (["collect", "one.json", "-l", "2k"],
         r"Planned in TIME\. Nothing was written: use --apply -o FILE to write the result\."),
        (["collect", "one.json", "-l", "2k", "--apply", "-o", "out.json"],
         r"Collected in TIME\. Wrote the result to out\.json\."),
        (["collect", "one.json", "-l", "1M"], r"Planned in TIME\. Nothing to write\."),
    ],
)  # fmt: skip
def test_last_line_says_what_was_done_and_how_it_ended(args: list[str], end: str) -> None:
    said = " ".join(run(*args).stdout.rpartition("\n\n")[2].split())

    assert re.fullmatch(end.replace("TIME", TIME), said), said


@pytest.mark.parametrize(
    ("args", "colour"),
    [
        (["check", "one.json", "-l", "2k", *ONE], "32"),
        (["check", "one.json", "-l", "2k", "-s", "none", *ONE], "31"),
        (["replay", "one.json", "-l", "2k", "--keep-turns", "1"], "32"),
        (["replay", "one.json", "-l", "2k", "-s", "none"], "31"),
    ],
)
def test_last_line_is_green_or_red_on_a_terminal_only(args: list[str], colour: str) -> None:
    _, shown = run_on_a_terminal(*args)
    _, plain = run_on_a_terminal(*args, NO_COLOR="1")

    last = shown.rstrip("\n").rpartition("\n\n")[2]
    assert last.startswith(f"\x1b[1;{colour}m")
    assert "\x1b[1;3" not in plain
    assert "\x1b" not in run(*args).stdout


@pytest.mark.parametrize("command", ["compare", "replay", "check", "collect"])
def test_json_output_is_json_only(command: str) -> None:
    workers = () if command in ("replay", "collect") else ONE
    result = run(command, "one.json", "-l", "2k", "--json", *workers)

    assert json.loads(result.stdout)


# --- prices ---


def costs_of(command: str, *args: object) -> tuple[float, str, str | None]:
    """Returns the cost, the model whose price applies, and the model without a price."""
    workers = () if command in ("replay", "collect") else ONE
    found = json.loads(run(command, *args, "-l", "2k", "--json", *workers).stdout)
    if command == "collect":
        cost = found["cost"]
        return cost["rewriting"], cost["model"], cost["unpriced_model"]
    if command == "compare":
        [report] = [
            each["report"]
            for each in found["comparison"]["results"]
            if each["cell"]["strategy"] == "gc_budget"
        ]
    else:
        [report] = found["reports"]
    return report["cost"], report["model"], report["unpriced_model"]


@pytest.mark.parametrize("command", ["collect", "replay", "compare"])
@pytest.mark.parametrize(
    "log",
    [
        request_of("claude-opus-4-5-20251101"),
        session_of("claude-opus-4-5-20251101"),
        session_of("claude-opus-4-5-20251101", "claude-haiku-4-5", "claude-opus-4-5-20251101"),
        session_of("<synthetic>", "<synthetic>", "claude-opus-4-5-20251101"),
    ],
    ids=["request", "session", "session of two models", "session with synthetic answers"],
)
def test_price_is_that_of_the_model_in_the_log(
    command: str, log: dict[str, Any] | list[dict[str, Any]]
) -> None:
    write_log(log)

    cost, model, unpriced = costs_of(command, "log.json")
    chosen, other, _ = costs_of(command, "log.json", "--model", "claude-sonnet-4-5")

    assert (model, unpriced, other) == ("claude-opus-4-5", None, "claude-sonnet-4-5")
    assert cost > chosen > 0


@pytest.mark.parametrize("command", ["collect", "replay", "compare"])
@pytest.mark.parametrize("named", [None, "house-model-7"])
@pytest.mark.parametrize("log_of", [request_of, session_of])
def test_price_is_the_default_if_the_model_is_unknown(
    command: str, named: str | None, log_of: Callable[[str | None], Any]
) -> None:
    write_log(log_of(named))

    assert costs_of(command, "log.json")[1:] == (load_prices().default, named)


@pytest.mark.parametrize(
    "args",
    [
        ["collect"],
        ["replay"],
        ["compare", "-s", "budget,truncate", *ONE],
        ["report", *ONE],
        ["check", "--max-cost", "100", *ONE],
    ],
    ids=lambda args: args[0],
)
@pytest.mark.parametrize("log_of", [request_of, session_of])
def test_unknown_price_is_said_once_with_the_price_that_applies(
    args: list[str], log_of: Callable[[str | None], Any]
) -> None:
    write_log(log_of("house-model-7"))
    command, *options = args
    said = " ".join(run(command, "log.json", "-l", "2k", *options).stdout.split())
    with_model = run(command, "log.json", "-l", "2k", *options, "--model", "gpt-5", "--force")

    note = f"No price is known for house-model-7: the prices of {load_prices().default} apply."
    assert said.count(note) == 1
    assert said.count("No price is known") == 1
    assert "No price is known" not in with_model.stdout


def test_every_run_of_a_comparison_has_the_price_of_its_model() -> None:
    write_json(Path("opus.json"), request_of("claude-opus-4-5"))
    write_json(Path("sonnet.json"), request_of("claude-sonnet-4-5"))
    shown = run("compare", "opus.json", "sonnet.json", "-s", "budget", "-l", "2k", "--json", *ONE)
    Path("saved.json").write_text(shown.stdout, encoding="utf-8")
    found = json.loads(shown.stdout)

    reports = [each["report"] for each in found["comparison"]["results"]]
    assert {each["transcript"]: each["model"] for each in reports} == {
        "opus.json": "claude-opus-4-5",
        "sonnet.json": "claude-sonnet-4-5",
    }
    assert found["prices"].keys() == {"claude-opus-4-5", "claude-sonnet-4-5"}
    assert run("report", "--from", "saved.json").exit_code == 0


@pytest.mark.parametrize("command", ["compare", "replay"])
def test_costs_in_several_currencies_are_not_added_up(command: str) -> None:
    Path("prices.toml").write_text(
        '[[prices]]\nmodels = ["mine"]\ncurrency = "EUR"\ninput = 1\noutput = 1\ncache_read = 1\n'
        "date = 2026-01-01\n",
        encoding="utf-8",
    )
    write_json(Path("mine.json"), request_of("mine"))
    workers = () if command == "replay" else ONE
    result = run(command, "one.json", "mine.json", "--prices", "prices.toml", *workers)

    assert result.exit_code == 2
    assert "prices in EUR and USD: choose one model for all runs with --model" in result.stderr


# --- overwriting ---


WRITING = {
    "demo": (["demo", "--out", "FILE"], "FILE"),
    "demo --sample": (["demo", "--sample", "FILE"], "FILE"),
    "compare": (
        ["compare", "one.json", "-s", "budget", "-l", "2k", "--report", "FILE", *ONE], "FILE",
    ),
    "report": (["report", "one.json", "-s", "budget", "-l", "2k", "--out", "FILE", *ONE], "FILE"),
    "report --svg": (
        ["report", "one.json", "-s", "budget", "-l", "2k", "--svg", "FILE", *ONE], "FILE",
    ),
    "collect": (["collect", "one.json", "-l", "2k", "--apply", "--out", "FILE"], "FILE"),
    "undo file of collect": (
        ["collect", "one.json", "-l", "2k", "--apply", "--out", "FILE"], "FILE.undo.json.gz",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", WRITING)
def test_existing_files_are_replaced_with_force_only(command: str) -> None:
    args, name = WRITING[command]
    Path(name).write_text("mine", encoding="utf-8")
    refused = run(*args)
    before = Path(name).read_text(encoding="utf-8")
    forced = run(*args, "--force")

    assert refused.exit_code == 2
    assert refused.stderr == (
        f"jaato-gc: {name} already exists: choose another file or use --force to replace it\n"
    )
    assert refused.stdout == ""
    assert before == "mine"
    assert forced.exit_code == 0, forced.stderr
    assert Path(name).read_bytes() != b"mine"


# --- undo as JSON, and groups ---


def test_undo_prints_json_if_asked_to() -> None:
    original = Path("one.json").read_bytes()
    assert run("collect", "one.json", "-l", "2k", "--apply", "--in-place").exit_code == 0
    assert Path("one.json").read_bytes() != original
    result = run("collect", "one.json", "--undo", "--json")

    assert json.loads(result.stdout) == {"file": "one.json", "restored": True}
    assert Path("one.json").read_bytes() == original


def test_bare_group_shows_its_help_without_an_error() -> None:
    result = run("config")
    code, _ = run_on_a_terminal("config")

    assert result.exit_code == code == 2  # as click does for groups
    assert result.output.startswith("Usage: ")
    assert "show " in result.output
    assert "jaato-gc: " not in result.output
    assert without_colours(result.output) == result.output
