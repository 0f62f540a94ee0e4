"""The script that prints the tables of the documentation from a saved comparison."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jaato_gc_lab import sample_path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "comparison_tables.py"


def printed(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of the sample run in two windows."""
    program = "from jaato_gc_lab._cli import main; main()"
    args = ["--strategies", "budget", "--context-limit", "32k,128k", "--workers", "1", "--json"]
    command = [sys.executable, "-c", program, "compare", str(sample_path()), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    file = tmp_path_factory.mktemp("comparison") / "saved.json"
    file.write_text(done.stdout, encoding="utf-8")
    return file


def test_each_window_has_a_table_with_the_runs_without_collection_last(saved: Path) -> None:
    blocks = printed(saved).stdout.rstrip("\n").split("\n\n")

    assert blocks[0] == "### Window of 32,000 tokens"
    assert blocks[3] == "### Window of 128,000 tokens"
    assert "Runs that need collecting: 1." in " ".join(blocks[1].split())
    for table in (blocks[2], blocks[5]):
        header, line, *rows = table.splitlines()
        assert {header.count("|"), line.count("|"), *(row.count("|") for row in rows)} == {12}
        assert [row.split("`")[1] for row in rows][-1] == "none"
        assert {row.split("`")[1] for row in rows} == {"gc_budget", "keep-last", "none"}


def test_the_same_comparison_gives_the_same_tables(saved: Path) -> None:
    assert printed(saved).stdout == printed(saved).stdout


def test_another_file_is_refused(tmp_path: Path) -> None:
    for content in ("no JSON", json.dumps({"format": "other"})):
        (tmp_path / "other").write_text(content, encoding="utf-8")

        done = printed(tmp_path / "other")

        assert done.returncode == 2
        assert "is not the output of jaato-gc compare --json" in done.stderr
