"""Sessions that estimate, and are set right by reported usage, decide as exact counting would.

Recorded runs are replayed where they lie: in the folder that the environment variable
JAATO_GC_TRANSCRIPTS names, or beside the repository.
"""

import os
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
    message_tokens,
)
from jaato_gc_budget import create_plugin
from jaato_gc_formats import FormatError, load

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or ROOT.parent / "shared" / "transcripts")
WINDOW = 16_000
RUNS = 30
TOLERANCE = EstimateCounter().tolerance

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there are no transcripts: JAATO_GC_TRANSCRIPTS"
)


def long_runs() -> list[Path]:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_size)[-RUNS:]


class Exact:
    """What exact counting says of messages, each counted once."""

    def __init__(self) -> None:
        self._counter = TiktokenCounter()
        self._known: dict[int, tuple[Message, int]] = {}

    def count(self, messages: list[Message]) -> int:
        return sum(map(self._tokens, messages))

    def _tokens(self, message: Message) -> int:
        if id(message) not in self._known:  # a copy: the message remembers what the session counted
            tokens = message_tokens(replace(message), self._counter)
            self._known[id(message)] = message, tokens
        return self._known[id(message)][1]


def replay(messages: list[Message]) -> list[tuple[bool, float]]:
    """For every request: whether a collection was due, and the exact percentage then."""
    exact, decisions = Exact(), []
    session = GCSession(context_limit=WINDOW, counter=EstimateCounter())
    session.set_gc_plugin(create_plugin())
    for message in messages:
        session.append(message)
        if message.role is Role.MODEL:
            continue
        percent = exact.count(session.history) / WINDOW * 100
        collections, is_paused = len(session.get_gc_history()), session.paused_because
        try:
            request = session.before_send()
        except InvalidHistoryError:
            continue  # results of the same calls are still to come
        except ContextFloorError:
            break  # larger than the window by itself
        if not is_paused:  # after collections in vain
            decisions.append((len(session.get_gc_history()) > collections, percent))
        session.report_usage(exact.count(list(request)))
    return decisions


def test_a_collection_is_due_when_it_is_by_exact_counting_within_the_tolerance() -> None:
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
