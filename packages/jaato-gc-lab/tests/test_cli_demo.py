"""Tests of jaato-gc demo."""

import re
from pathlib import Path

import pytest
from cli_samples import run, run_in_a_process, run_on_a_terminal, without_colours

from jaato_gc_lab import compare, rank, sample_path
from jaato_gc_lab._cli._demo_text import rows


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_report(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return text.startswith("<!doctype html>") and "sample run" in text


def test_demo_begins_with_the_strongest_fact_and_fits_on_a_screen() -> None:
    result = run("demo")
    lines = result.stdout.splitlines()
    first = " ".join(lines[:2])

    assert result.exit_code == 0, result.stderr
    assert len(lines) <= 45
    assert all(len(line) <= 80 for line in lines)
    assert re.match(
        r"Without collection, \d+ of 140 requests do not fit into 32k tokens\. "
        r"With gc_\w+, all fit, with \d+% of the tokens\.$",
        first,
    )
    assert result.stdout.count("100% │") == 2
    assert is_report(Path("jaato-gc-demo.html"))


def test_headline_and_table_of_the_demo_are_figures_of_the_replay() -> None:
    shown = run("demo", "--context-limit", "16k").stdout
    comparison = compare([sample_path()], context_limits=[16_000], workers=1)
    reports = {report.strategy: report for report in comparison.reports}
    [ranking] = rank(comparison)
    best = next(each.strategy for each in ranking.places if each.strategy != "keep-last")
    sent = reports[best].input_tokens / reports["none"].input_tokens

    headline = " ".join(shown.splitlines()[:2])
    assert f"{reports['none'].overflows} of {len(reports['none'].requests)}" in headline
    assert f"With {best}, all fit, with {sent:.0%} of" in headline
    for place in ranking.places:
        assert re.search(rf"^.*{place.strategy}.* 0 ", shown, re.MULTILINE), place.strategy


def test_strategies_with_the_same_figures_share_a_row() -> None:
    comparison = compare([sample_path()], context_limits=[200_000], workers=1)
    table = rows(comparison.summaries())
    names = [name for row in table for name in row[0].split(", ")]

    assert sorted(names) == sorted(comparison.strategies)
    assert len({row[1:] for row in table}) == len(table) == 2


def test_demo_with_a_large_window_says_that_nothing_has_to_be_removed() -> None:
    result = run("demo", "--context-limit", "200k")

    assert result.stdout.startswith("All 140 requests fit into 200k tokens, nothing has to be")
    assert result.stdout.count("100% │") == 1
    assert "!!" not in result.stdout


@pytest.mark.parametrize("window", ["128k", "8k"])
def test_demo_reads_well_with_other_windows(window: str) -> None:
    result = run("demo", "--context-limit", window)
    lines = result.stdout.splitlines()

    assert result.exit_code == 0, result.stderr
    assert len(lines) <= 45
    assert f"into {window} tokens" in " ".join(lines[:2])
    assert result.stdout.count("100% │") == 2


def test_demo_refuses_a_window_that_no_strategy_can_help_with() -> None:
    result = run("demo", "--context-limit", "300")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "try --context-limit 8k" in result.stderr
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("installed", "recommended"), [(["summarize", "truncate"], "gc_truncate"), ([], "keep-last")]
)
def test_demo_works_with_some_strategies_or_none(
    installed: list[str], recommended: str, tmp_path: Path
) -> None:
    loaded = ",".join(f"jaato-gc-{name}" for name in ["formats", *installed])
    done = run_in_a_process("demo", cwd=tmp_path, JAATO_GC_LOAD_PLUGINS=loaded)

    assert done.returncode == 0, done.stderr
    assert f"With {recommended}, all fit" in " ".join(done.stdout.splitlines()[:2])
    assert set(re.findall(r"gc_\w+", done.stdout)) == {f"gc_{name}" for name in installed}


def test_demo_has_colours_on_a_terminal_unless_no_color_is_set() -> None:
    _, coloured = run_on_a_terminal("demo")
    _, plain = run_on_a_terminal("demo", NO_COLOR="1")

    assert re.search(r"\x1b\[1;31m!+\x1b", coloured)
    assert "\x1b[3" not in plain
    assert "\x1b" not in run("demo").stdout


def test_demo_shows_whole_names_on_a_narrow_terminal() -> None:
    _, shown = run_on_a_terminal("demo", columns=60)

    assert all(len(line) <= 60 for line in without_colours(shown).splitlines())
    assert "gc_marksweep  " in without_colours(shown)
    assert "…" not in shown


def test_demo_does_not_overwrite_existing_files_unless_forced() -> None:
    Path("jaato-gc-demo.html").write_text("mine", encoding="utf-8")

    result = run("demo", "--context-limit", "48k")
    refused = run("demo", "--out", "jaato-gc-demo.html")

    assert "jaato-gc-demo-2.html" in result.stdout
    assert is_report(Path("jaato-gc-demo-2.html"))
    assert refused.exit_code == 2
    assert Path("jaato-gc-demo.html").read_text(encoding="utf-8") == "mine"
    assert run("demo", "--force").exit_code == 0
    assert is_report(Path("jaato-gc-demo.html"))
    assert len(list(Path().iterdir())) == 2


def test_demo_can_write_the_sample_run_only() -> None:
    result = run("demo", "--sample", "run.json.gz")

    assert result.exit_code == 0
    assert Path("run.json.gz").read_bytes() == sample_path().read_bytes()
    assert run("demo", "--sample", "run.json.gz").exit_code == 2
    assert run("demo", "--sample", "run.json.gz", "--force").exit_code == 0
    assert [path.name for path in Path().iterdir()] == ["run.json.gz"]
