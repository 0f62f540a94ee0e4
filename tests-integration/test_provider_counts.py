"""Counted tokens are within the stated tolerance of the tokens that providers reported.

The recorded requests are not part of this repository. They are read from the folder in the
environment variable JAATO_GC_TRANSCRIPTS, or from ``shared/transcripts`` beside the repository.
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
MIN_TOKENS = 1_000
"""Smaller totals are not compared: the definition of one tool would be half of them."""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)


@cache
def rows() -> list[dict[str, Any]]:
    command = [sys.executable, "provider_counts.py", "--json"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [row for row in found if row["reported"] >= MIN_TOKENS]


def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns the rows of core's counter, each with the row of the provider's counter."""
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


def test_totals_are_within_the_tolerance_of_the_counter() -> None:
    for row in rows():
        if row["counter"].endswith("provider"):
            tolerance = TOLERANCES[row["provider"].partition(" ")[0]]
            assert abs(row["total_error"]) <= tolerance, row


def test_the_median_error_of_single_requests_is_below_13_percent() -> None:
    for row in rows():
        if row["counter"].endswith("provider"):
            assert row["median_error"] < 0.13, row


def test_the_error_of_a_session_with_reported_usage_is_below_3_percent() -> None:
    for row in rows():
        if row["counter"].endswith("provider") and row["anchored"] is not None:
            assert row["anchored"] < 0.03, row


def test_the_providers_counters_are_more_accurate_than_core() -> None:
    for core, provider in pairs():
        assert provider["median_error"] <= core["median_error"], provider
        if provider["provider"] == "anthropic":
            assert provider["median_error"] < core["median_error"] / 2, provider


def test_the_documented_errors_match_the_measured_ones() -> None:
    lines = [re.split(r" *\| *", line.strip("| ")) for line in PAGE.read_text().splitlines()]
    documented = {tuple(cells[:3]): cells for cells in lines if len(cells) == 11}
    for row in rows():
        cells = documented[row["provider"], row["source"], row["counter"]]
        total = float(cells[6].rstrip("%")) / 100
        assert abs(total - row["total_error"]) < 0.02, f"run the benchmark again: {row}"
