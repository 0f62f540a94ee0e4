"""Estimates that are corrected by reported usage trigger collections like exact counts do.

The recorded runs are read from the folder in the environment variable JAATO_GC_TRANSCRIPTS, or
from ``shared/transcripts`` beside the repository.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jaato_gc import (
    ContextFloorError,
    EstimateCounter,
    GCSession,
    InvalidHistoryError,
    Message,
    Role,
    TiktokenCounter,
)
from jaato_gc.plugin import message_tokens
from jaato_gc_budget import create_plugin
from jaato_gc_formats import FormatError, load

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
WINDOW = 16_000
RUNS = 30
TOLERANCE = EstimateCounter().tolerance

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no transcripts: set JAATO_GC_TRANSCRIPTS to their folder"
)


def long_runs() -> list[Path]:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_size)[-RUNS:]


class ExactCounts:
    """Exact token counts, cached by message."""

    def __init__(self) -> None:
        self._counter = TiktokenCounter()
        self._known: dict[int, tuple[Message, int]] = {}

    def count(self, messages: Sequence[Message]) -> int:
        return sum(map(self._tokens, messages))

    def _tokens(self, message: Message) -> int:
        if id(message) not in self._known:
            # A copy, because the message caches the estimate of the session.
            tokens = message_tokens(replace(message), self._counter)
            self._known[id(message)] = message, tokens
        return self._known[id(message)][1]


def replay(messages: list[Message]) -> list[tuple[bool, float]]:
    """Returns for every request whether a collection ran, and the exact usage in percent."""
    exact, decisions = ExactCounts(), []
    session = GCSession(context_limit=WINDOW, counter=EstimateCounter())
    session.set_gc_plugin(create_plugin())
    for message in messages:
        session.append(message)
        if message.role is Role.MODEL:
            continue
        percent = exact.count(session.history) / WINDOW * 100
        collections, is_paused = session.collection_count, session.paused_because
        try:
            request = session.before_send()
        except InvalidHistoryError:
            continue  # the results of parallel calls are not complete yet
        except ContextFloorError:
            break  # the protected content alone exceeds the window
        if not is_paused:  # a session pauses after collections that freed nothing
            decisions.append((session.collection_count > collections, percent))
        session.report_usage(exact.count(list(request)))
    return decisions


def test_collections_run_at_the_threshold_of_exact_counting_within_the_tolerance() -> None:
    decisions: list[tuple[bool, float]] = []
    for path in long_runs():
        try:
            conversations = load(path)
        except FormatError:
            continue
        for conversation in conversations:
            decisions += replay(list(conversation.messages))

    threshold = 80.0
    due = [percent for is_due, percent in decisions if is_due]
    not_due = [percent for is_due, percent in decisions if not is_due]
    assert len(due) > 100
    assert len(not_due) > 1_000
    assert min(due) >= threshold * (1 - TOLERANCE)
    assert max(not_due) <= threshold * (1 + TOLERANCE)
