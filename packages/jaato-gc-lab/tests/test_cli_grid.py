"""Tests of jaato-gc replay, compare, report and check."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cli_samples import anthropic_request, chat_messages, run, run_in_a_process, write_json

from jaato_gc_lab import sample_path

ONE = ("--workers", "1")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def logs() -> Path:
    """A folder with two runs, a text file and an image."""
    folder = Path("logs")
    (folder / "deeper").mkdir(parents=True)
    write_json(folder / "one.json", anthropic_request(8))
    write_json(folder / "deeper" / "two.json", chat_messages(8))
    (folder / "note.txt").write_text("bring milk", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder


def is_page(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return text.startswith("<!doctype html>") and "gc_budget" in text


# --- replay ---


def test_replay_of_one_run_shows_chart_and_removed_tokens() -> None:
    result = run("replay", sample_path(), "--strategy", "marksweep", "--context-limit", "32k")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("gc_marksweep in a window of 32,000 tokens")
    assert "100% " in result.stdout
    assert "Removed tokens by reason" in result.stdout
    assert "cleared_" in result.stdout


def test_replay_of_a_folder_lists_skipped_files(logs: Path) -> None:
    result = run("replay", logs, "--context-limit", "2k", "--keep-turns", "1", "--json")
    shown = run("replay", logs, "--context-limit", "2k", "--keep-turns", "1")

    found = json.loads(result.stdout)
    assert [each["transcript"] for each in found["reports"]] == ["two.json", "one.json"]
    for report in found["reports"]:
        assert report["overflows"] == 0
        assert report["violations"] == []
        assert report["peak_tokens"] <= 2_000
        assert sum(report["freed_by_reason"].values()) > 0
    assert {Path(path).name for path in found["skipped"]} == {"note.txt", "picture.png"}
    assert "Skipped: 2" in shown.stdout
    assert "one.json" in shown.stdout


def test_replay_accepts_none_and_a_configuration_file(logs: Path) -> None:
    write_json(Path("gc.json"), {"type": "truncate", "preserve_recent_turns": 1})

    without = run("replay", logs / "one.json", "-s", "none", "--context-limit", "2k")
    with_file = run("replay", logs / "one.json", "--config", "gc.json", "--context-limit", "2k")

    assert without.stdout.startswith("none in a window of 2,000 tokens, without collection")
    assert "none: nothing was removed" in without.stdout
    assert with_file.stdout.startswith("gc_truncate in a window")


def test_inspect_and_replay_number_conversations_alike() -> None:
    lines = "".join(json.dumps(anthropic_request(turns)) + "\n" for turns in (2, 3))
    Path("two.jsonl").write_text(lines, encoding="utf-8")

    listed = json.loads(run("inspect", "two.jsonl", "--json").stdout)["conversations"]
    played = json.loads(run("replay", "two.jsonl", "--json").stdout)["reports"]

    assert [each["conversation"] for each in listed] == [1, 2]
    assert [each["transcript"] for each in played] == ["two.jsonl#1", "two.jsonl#2"]


def test_empty_folder_is_an_error() -> None:
    Path("empty").mkdir()

    for command in ("replay", "compare"):
        assert "no file to replay: pass files" in run(command, "empty").stderr


# --- compare and report ---


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with a comparison saved as JSON, made by a separate process."""
    folder = tmp_path_factory.mktemp("compared")
    write_json(folder / "one.json", anthropic_request(8))
    (folder / "note.txt").write_text("bring milk", encoding="utf-8")
    done = run_in_a_process(
        "compare", "one.json", "note.txt", "--strategies", "budget,truncate",
        "--context-limit", "2k,4k", "--keep-turns", "1", "--workers", "2", "--json",
        "--report", "report.html", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar without a terminal
    assert is_page(folder / "report.html")
    (folder / "comparison.json").write_text(done.stdout, encoding="utf-8")
    return folder


def test_compare_prints_summaries_and_rankings_as_json(compared: Path) -> None:
    found = json.loads((compared / "comparison.json").read_bytes())

    assert found["format"] == "jaato-gc comparison"
    assert all(price["models"] for price in found["prices"].values())
    assert {"jaato-gc", "jaato-gc-lab"} <= found["versions"].keys()
    lines = {(each["strategy"], each["context_limit"]): each for each in found["summaries"]}
    assert lines.keys() == {
        (name, limit)
        for name in ("none", "keep-last", "gc_budget", "gc_truncate")
        for limit in (2000, 4000)
    }
    assert lines["gc_budget", 2000]["refused"] == 0
    assert lines["none", 2000]["refused"] == 1
    assert 0 < lines["none", 2000]["refused_after"] < 1
    assert lines["gc_budget", 2000]["cost_pairs"] == 1
    assert found["cannot_fit"] == {"2000": [], "4000": []}
    assert lines["gc_budget", 2000]["violations"] == 0
    assert [ranking["context_limit"] for ranking in found["rankings"]] == [2000, 4000]
    assert list(found["comparison"]["skipped"]) == ["note.txt"]


def test_report_is_written_from_a_saved_comparison(compared: Path) -> None:
    saved = compared / "comparison.json"

    result = run("report", "--from", saved, "-o", "page.html", "--svg", "chart.svg")
    again = run("report", "--from", saved, "-o", "page.html")

    assert result.exit_code == 0, result.stderr
    assert is_page(Path("page.html"))
    assert Path("chart.svg").read_text(encoding="utf-8").lstrip().startswith("<svg")
    assert again.exit_code == 2
    assert "already exists" in again.stderr
    first, second = Path("page.html").read_bytes(), (compared / "report.html").read_bytes()
    assert first == second


def failing(compared: Path, *, at: slice) -> Path:
    """Returns a copy of the saved comparison in which some replays failed."""
    document = json.loads((compared / "comparison.json").read_bytes())
    for result in document["comparison"]["results"][at]:
        result |= {"report": None, "error": "RuntimeError: replay failed"}
    write_json(Path("failing.json"), document)
    return Path("failing.json")


def test_report_lists_failed_replays_and_skipped_files(compared: Path) -> None:
    result = run("report", "--from", failing(compared, at=slice(2, 3)), "-o", "page.html")

    assert result.exit_code == 0, result.stderr
    page = Path("page.html").read_text(encoding="utf-8")
    for shown in (page, result.stdout):
        assert "one.json, gc_budget, 2,000" in shown
        assert "replay failed" in shown
        assert "note.txt" in shown


def test_report_is_refused_if_all_replays_failed(compared: Path) -> None:
    result = run("report", "--from", failing(compared, at=slice(None)), "-o", "page.html")

    assert result.exit_code == 2
    assert "all replays failed" in result.stderr
    assert "replay failed" in result.stderr
    assert not Path("page.html").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--svg", "./page.html"], "are the same file"),
        (["--context-limit", "8k"], "--context-limit does not apply to a saved comparison"),
        (["--model", "gpt-4o"], "--model does not apply to a saved comparison"),
    ],
    ids=str,
)
def test_report_from_a_saved_comparison_refuses_conflicting_options(
    options: list[str], words: str, compared: Path
) -> None:
    result = run("report", "--from", compared / "comparison.json", "-o", "page.html", *options)

    assert result.exit_code == 2
    assert words in result.stderr
    assert list(Path().iterdir()) == []


def test_read_only_output_folder_is_an_error_before_the_replays(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)  # chmod does not stop root
    result = run("compare", logs, "--report", "page.html")

    assert result.exit_code == 2
    assert "is not writable: choose another one" in result.stderr


def test_damaged_comparison_is_refused(compared: Path) -> None:
    found = json.loads((compared / "comparison.json").read_bytes())
    damages: tuple[dict[str, Any], ...] = (
        {"version": 99},
        {"comparison": None},
        {"comparison": {**found["comparison"], "results": [{"cell": 1}]}},
        {"prices": {}},
    )
    for damage in damages:
        write_json(Path("damaged.json"), {**found, **damage})
        refused = run("report", "--from", "damaged.json")
        assert refused.exit_code == 2, damage
        assert "damaged.json" in refused.stderr
        assert not Path("jaato-gc-report.html").exists()


def test_compare_prints_table_ranking_and_skipped_files(logs: Path) -> None:
    result = run("compare", logs, "-s", "budget,gc_truncate", "-l", "2k", "--keep-turns", "1", *ONE)

    assert result.exit_code == 0, result.stderr
    assert "Window of 2,000 tokens, 2 transcripts" in result.stdout
    ranked = {re.match(rf"{place}\. ([\w-]+): ", line) for line in result.stdout.splitlines()
              for place in (1, 2, 3)}  # fmt: skip
    assert {each[1] for each in ranked if each} == {"keep-last", "gc_budget", "gc_truncate"}
    assert "Without collection" in result.stdout
    assert "Skipped: 2" in result.stdout
    assert "note.txt" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_compare_without_any_conversation_is_an_error(logs: Path) -> None:
    refused = run("compare", logs / "note.txt", logs / "picture.png", *ONE)

    assert refused.exit_code == 2
    assert "no conversation to replay" in refused.stderr
    assert "note.txt" in refused.stderr


def test_compare_uses_a_custom_price_table(logs: Path) -> None:
    Path("prices.toml").write_text(
        'default = "mine"\n[[prices]]\nmodels = ["mine"]\ncurrency = "EUR"\ninput = 1000\n'
        "output = 0\ncache_read = 1000\ndate = 2026-01-01\n",
        encoding="utf-8",
    )

    result = run("compare", logs / "one.json", "-s", "budget", "-l", "2k", "--prices",
                 "prices.toml", "--model", "mine", "--json", *ONE)  # fmt: skip

    found = json.loads(result.stdout)
    for line in found["summaries"]:
        assert line["currency"] == "EUR"
        assert line["cost"] == pytest.approx(line["input_tokens"] / 1000)


def test_report_is_written_from_files(logs: Path) -> None:
    result = run("report", logs, "-s", "budget", "-l", "2k", "-o", "page.html", *ONE)

    assert result.exit_code == 0, result.stderr
    assert is_page(Path("page.html"))
    assert "Skipped: 2\n" in result.stdout
    assert "FormatError" not in result.stdout


# --- check ---


def test_check_succeeds_if_all_limits_are_met(logs: Path) -> None:
    result = run("check", logs, "-l", "4k", "--keep-turns", "1", "--max-blind-edits", "0%", *ONE)

    assert result.exit_code == 0, result.output
    assert "All limits are met." in result.stdout


def test_check_shows_failed_limits_with_measured_and_allowed_values() -> None:
    args = ("check", sample_path(), "-l", "16k", "--max-lost-context", "0%",
            "--max-blind-edits", "100%", "--max-cost", "0", *ONE)  # fmt: skip
    result = run(*args)
    found = json.loads(run(*args, "--json").stdout)

    assert result.exit_code == 1
    assert result.stdout.count("FAILED ") == 2
    assert "Not met: 2 of 5 limits." in result.stdout
    [line] = [each for each in result.stdout.splitlines() if "lost-context" in each]
    assert "at most 0%" in line
    assert not found["holds"]
    failing = {each["rule"]: each for each in found["verdicts"] if not each["holds"]}
    assert failing.keys() == {"max_lost_context", "max_cost"}
    assert failing["max_lost_context"]["allowed"] == 0
    assert failing["max_lost_context"]["measured"] > 0
    assert failing["max_lost_context"]["context_limit"] == 16_000


def test_check_fails_on_refused_runs_unless_they_are_allowed(logs: Path) -> None:
    args = ("check", logs / "one.json", "-s", "none", "-l", "2k", *ONE)
    result = run(*args)
    allowed = run(*args, "--max-refused", "1000")

    assert result.exit_code == 1
    assert "refused" in next(line for line in result.stdout.splitlines() if "FAILED " in line)
    assert allowed.exit_code == 0


def test_check_keeps_every_request_within_a_tiny_window(logs: Path) -> None:
    result = run("check", logs / "one.json", "-l", "300", *ONE)

    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["none", "keep-last"])
def test_check_includes_a_contender_only_if_it_is_named(name: str, logs: Path) -> None:
    args = ("check", logs / "one.json", "-l", "32k", "--json", *ONE)
    alone = json.loads(run(*args, "-s", name).stdout)
    beside = json.loads(run(*args, "-s", f"budget,{name}").stdout)
    default = json.loads(run(*args).stdout)

    assert {each["strategy"] for each in alone["verdicts"]} == {name}
    assert {each["strategy"] for each in beside["verdicts"]} == {name, "gc_budget"}
    assert {each["strategy"] for each in default["verdicts"]} == {"gc_budget"}


def test_check_fails_if_no_run_can_fit_into_a_window(logs: Path) -> None:
    large = chat_messages(1)
    large[1]["content"] = "a long request " * 400
    write_json(Path("large.json"), large)
    result = run("check", "large.json", "-l", "1k,32k", *ONE)
    beside = run("check", "large.json", logs / "one.json", "-l", "1k", *ONE)
    found = json.loads(run("check", "large.json", "-l", "1k", "--json", *ONE).stdout)

    assert result.exit_code == 1
    assert "Not checked: no run can fit into a window of 1,000 tokens." in result.stdout
    assert "All limits are met." not in result.stdout
    assert "FAILED" not in result.stdout
    assert "32,000" in result.stdout
    assert (found["holds"], found["verdicts"]) == (False, [])
    assert beside.exit_code == 0, beside.output  # there is a run that was checked


def test_check_uses_the_strategy_of_a_configuration_file(logs: Path) -> None:
    write_json(Path("gc.json"), {"type": "truncate", "preserve_recent_turns": 1})

    result = run("check", logs, "-l", "2k", "--config", "gc.json", *ONE)

    assert result.exit_code == 0, result.output
    assert "gc_truncate" in result.stdout


def test_check_without_any_conversation_exits_with_2(logs: Path) -> None:
    assert run("check", logs / "note.txt", *ONE).exit_code == 2
