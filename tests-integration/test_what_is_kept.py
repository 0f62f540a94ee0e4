"""What collections keep of recorded agent runs, and how much of them is garbage.

The recorded runs are not part of this repository. They are read where they lie: in the folder that
the environment variable JAATO_GC_TRANSCRIPTS names, or beside the repository.
"""

import json
import os
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    check_history,
    count_tokens,
)

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
FOLDER = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
COUNTER = EstimateCounter()
REGISTRY = PluginRegistry()
GARBAGE = {
    "cleared_superseded", "cleared_failed", "identical",
    "cleared_repeated", "cleared_long",
}  # fmt: skip
LARGEST = 100_000
"""Tokens of the longest run that the shares are measured on: longer ones take too long."""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there are no transcripts: JAATO_GC_TRANSCRIPTS"
)


# --- what is kept, at equal tokens ---


@cache
def figures() -> dict[str, Any]:
    """Returns the benchmark's figures by strategy."""
    command = [sys.executable, "what_is_kept.py", "--json", "--at", "32000,64000", "--keep", "60"]
    command += ["--strategies", "keep-last,head-tail,gc_marksweep,oracle", "--workers", "1"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    content = json.loads(done.stdout)
    assert content["errors"] == []
    return {each["strategy"]: each for each in content["rows"]}


def test_keep_last_loses_what_dropping_the_oldest_exchanges_loses() -> None:
    kept = figures()["keep-last"]

    assert kept["runs"] >= 10
    for measure in ("names", "context", "edits"):
        assert 0.85 < kept[measure]["value"] < 1.15


def test_contender_that_knows_the_future_loses_least() -> None:
    oracle, others = figures()["oracle"], [figures()["keep-last"], figures()["head-tail"]]

    for measure in ("context", "edits"):
        assert oracle[measure]["lost"] < min(each[measure]["lost"] for each in others)
    assert oracle["context"]["low"] <= oracle["context"]["value"] <= oracle["context"]["high"] < 1


def test_gc_marksweep_loses_less_than_half_of_the_names_that_keep_last_loses() -> None:
    assert figures()["gc_marksweep"]["names"]["value"] < 0.5


# --- garbage ---


@cache
def garbage_shares() -> dict[str, list[tuple[int, float]]]:
    """Returns the tokens of each run and the share that is garbage, by kind of run."""
    shares: dict[str, list[tuple[int, float]]] = {"service": [], "code": []}
    for run in runpy.run_path(str(BENCHMARKS / "transcripts.py"))["read_transcripts"]():
        tokens = count_tokens(run.messages, COUNTER)
        if 2_000 <= tokens <= LARGEST and not check_history(run.messages):
            kind = "service" if run.source == "service" else "code"
            shares[kind].append((tokens, garbage_share(run.messages)))
    return shares


def garbage_share(messages: list[Message], steps: int = 5) -> float:
    """Returns how much of a run goes before anything that is not garbage goes."""
    tokens = count_tokens(messages, COUNTER)
    session = GCSession(context_limit=2 * tokens, counter=COUNTER, registry=REGISTRY)
    for message in messages:
        session.append(message)
    config = GCConfig(preserve_recent_turns=0, preserve_recent_groups=0)
    session.set_gc_plugin(REGISTRY.create("gc_marksweep"), config)
    total = session.budget.total_tokens()
    best, least, most = 0.0, 0.0, 1.0
    for _ in range(steps):  # the share is between these two
        share = (least + most) / 2
        target = 100 * total * (1 - share) / session.budget.context_limit
        result = session.plan_gc(GCTriggerReason.THRESHOLD, target_percent=target).result
        if {item.reason for item in result.removal_list} <= GARBAGE:
            least, best = share, result.tokens_freed / total
        else:
            most = share
    return best


def overall(shares: list[tuple[int, float]]) -> float:
    return sum(tokens * share for tokens, share in shares) / sum(tokens for tokens, _ in shares)


def test_service_dialogues_have_little_garbage() -> None:
    shares = garbage_shares()["service"]

    assert len(shares) > 40
    assert overall(shares) < 0.04


def test_coding_runs_have_much_garbage() -> None:
    shares = garbage_shares()["code"]

    assert len(shares) >= 10
    assert overall(shares) > 0.15
