"""How far counted tokens are from what providers reported: within what the counters promise.

The recorded requests are not part of this repository. They are read where they lie: in the folder
that the environment variable JAATO_GC_TRANSCRIPTS names, or beside the repository.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jaato_gc_formats._counting import BY_MODEL, OTHER

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "explanation" / "counting-tokens.md"
FOLDER = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
TOLERANCES = {each.name: each.tolerance for each in (*BY_MODEL.values(), OTHER)}
ENOUGH = 1_000
"""Tokens below which a total says nothing: a few dozen for one tool are half of it."""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there are no transcripts: JAATO_GC_TRANSCRIPTS"
)


@cache
def rows() -> list[dict[str, Any]]:
    command = [sys.executable, "provider_counts.py", "--json"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [row for row in found if row["reported"] >= ENOUGH]


def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each row of core's figures with that of the provider's."""
    by_key = {(row["provider"], row["source"], row["counter"]): row for row in rows()}
    return [
        (row, by_key[provider, source, counter.replace("core", "provider")])
        for (provider, source, counter), row in by_key.items()
        if counter.endswith("core")
    ]


def test_every_provider_is_measured() -> None:
    found = {(row["provider"].partition(" ")[0], row["source"]) for row in rows()}
    assert {provider for provider, _ in found} == {
        "anthropic", "gemini", "gemini-2", "openai", "other",
    }  # fmt: skip
    assert len(found) >= 10


def test_totals_are_within_the_tolerance_that_the_counters_state() -> None:
    for row in rows():
        if row["counter"].endswith("provider"):
            tolerance = TOLERANCES[row["provider"].partition(" ")[0]]
            assert abs(row["total_error"]) <= tolerance, row


def test_single_figures_are_mostly_near() -> None:
    for row in rows():
        if row["counter"].endswith("provider"):
            assert row["median_error"] < 0.13, row


def test_a_session_that_is_told_the_usage_is_hardly_off() -> None:
    for row in rows():
        if row["counter"].endswith("provider") and row["anchored"] is not None:
            assert row["anchored"] < 0.03, row


def test_the_providers_figures_beat_those_of_core() -> None:
    for core, provider in pairs():
        assert provider["median_error"] <= core["median_error"], provider
    claude = [(core, own) for core, own in pairs() if own["provider"] == "anthropic"]
    for core, own in claude:
        assert own["median_error"] < core["median_error"] / 2, own


def test_the_documentation_says_what_is_measured() -> None:
    lines = [re.split(r" *\| *", line.strip("| ")) for line in PAGE.read_text().splitlines()]
    told = {tuple(cells[:3]): cells for cells in lines if len(cells) == 11}
    for row in rows():
        cells = told[row["provider"], row["source"], row["counter"]]
        total = float(cells[6].rstrip("%")) / 100
        assert abs(total - row["total_error"]) < 0.02, f"run the benchmark again: {row}"
