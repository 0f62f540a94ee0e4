"""All strategies on the same recorded agent runs, and their work on one long history.

The recorded runs are not part of this repository. They are read from the folder that the
environment variable JAATO_GC_TRANSCRIPTS names, or from ``shared/transcripts`` beside the
repository. Set JAATO_GC_ALL_TRANSCRIPTS to read all of them instead of a sample.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from repository import own_strategies

from jaato_gc import (
    ContextFloorError,
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCSession,
    GCTriggerReason,
    Message,
    PluginRegistry,
    Role,
    check_history,
    count_tokens,
    extractive_summary,
    load_gc_plugin,
)
from jaato_gc.plugin import lay_out, protect
from jaato_gc_formats import FormatError, load
from jaato_gc_testing import count_operations, long_history

OPTIONS: dict[str, dict[str, Any]] = {
    "gc_summarize": {"extractive": True},
    "gc_hybrid": {"summarizer": extractive_summary, "on_summarizer_error": "truncate"},
}
STRATEGIES = {name: OPTIONS.get(name, {}) for name in own_strategies()}
WINDOWS = [8_000, 32_000, 128_000]
COUNTER = EstimateCounter()
READ_ALL = bool(os.environ.get("JAATO_GC_ALL_TRANSCRIPTS"))
CRUMBS = 100
"""No summary is shorter than this many tokens, so a strategy that summarizes keeps them."""
PER_FILE = 4
"""The maximum number of dialogues from one file in the sample."""


# --- recorded runs ---


def folder() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "transcripts"
    return Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)


@dataclass
class Transcript:
    """A recorded run."""

    name: str
    messages: list[Message]

    @property
    def is_broken(self) -> bool:
        """Whether a provider would refuse it: it has rewinds, or calls without results."""
        return bool(check_history(self.messages))


def chosen_files() -> Iterator[Path]:
    """Yields all files, or every third file of each folder, from the largest on."""
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted(folder().rglob("*")):
        if path.is_file() and "edge" not in path.parts:
            by_folder.setdefault(path.parent, []).append(path)
    for paths in by_folder.values():
        paths.sort(key=lambda path: -path.stat().st_size)
        yield from paths if READ_ALL else paths[::3]


@cache
def transcripts() -> list[Transcript]:
    """Returns the recorded runs, or a sample of them."""
    found = []
    for path in chosen_files():
        try:
            conversations = load(path)
        except FormatError:  # it has no conversation
            continue
        for number, conversation in enumerate(conversations[: None if READ_ALL else PER_FILE]):
            messages = from_the_first_request(conversation.messages)
            if any(message.role is Role.MODEL for message in messages):
                found.append(Transcript(f"{path.name}#{number}", messages))
    return found


def from_the_first_request(messages: Iterable[Message]) -> list[Message]:
    """Returns the messages without empty ones and without a greeting before the first request."""
    kept: list[Message] = []
    has_begun = False
    for message in messages:
        if message.is_empty:
            continue
        has_begun = has_begun or message.opens_turn
        if has_begun or message.role is Role.SYSTEM:
            kept.append(message)
    return kept


# --- replaying ---


@dataclass
class Replay:
    """The figures and faults of recorded runs that were sent through sessions."""

    figures: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def run(self, transcript: Transcript, strategy: str, window: int) -> None:
        """Sends every request of the recorded agent that fits."""
        session = GCSession(
            context_limit=window, counter=COUNTER, repair=transcript.is_broken, registry=REGISTRY
        )
        plugin = load_gc_plugin(strategy, STRATEGIES[strategy])
        session.set_gc_plugin(plugin, GCConfig(preserve_recent_turns=1))
        for message in transcript.messages:
            if message.role is Role.MODEL:
                self._send(session, f"{transcript.name} {strategy} {window}")
            elif message.opens_turn:
                session.after_turn()
            session.append(message)
        self.figures["transcripts"] += 1
        for collection in session.get_gc_history():
            self.figures["collections"] += 1
            self.figures["short"] += collection.outcome in (GCOutcome.SHORT, GCOutcome.NO_GAIN)
            if not collection.success:
                self.faults.append(f"{transcript.name} {strategy} {window}: {collection.error}")

    def _send(self, session: GCSession, where: str) -> None:
        self.figures["requests"] += 1
        window = session.budget.context_limit
        try:
            request = session.before_send()
        except ContextFloorError as error:
            self.figures["floor errors"] += 1
            if not _is_honest(error, session):
                self.faults.append(f"{where}: {error}")
            return
        self.faults.extend(f"{where}: {fault}" for fault in check_history(request))
        if (tokens := count_tokens(request, COUNTER)) > window:
            self.faults.append(f"{where}: {tokens} tokens sent")


def _is_honest(error: ContextFloorError, session: GCSession) -> bool:
    """Returns whether nothing fits, nothing removable is left, and the outcome says so."""
    most = sum(error.floor.values()) * (1 + COUNTER.tolerance) + 1
    layout = protect(lay_out(session.history), session.config, session.budget)
    left = [group for group in layout.groups if not (group.hold or group.messages[0].synthetic)]
    crumbs = CRUMBS if error.result.plugin_name in ("gc_summarize", "gc_hybrid") else 0
    return (
        most > session.budget.context_limit
        and sum(count_tokens(group.messages, COUNTER) for group in left) <= crumbs
        and error.result.outcome in (GCOutcome.SHORT, GCOutcome.NO_GAIN)
    )


REGISTRY = PluginRegistry()
COLUMNS = ["transcripts", "requests", "collections", "short", "floor errors"]


@pytest.mark.skipif(
    not folder().is_dir(), reason="the transcripts are missing: set JAATO_GC_TRANSCRIPTS"
)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_requests_of_recorded_runs_are_valid_and_fit_the_window(
    strategy: str, window: int, record_property: Callable[[str, object], None]
) -> None:
    replay = Replay()
    for transcript in transcripts():
        replay.run(transcript, strategy, window)

    for column in COLUMNS:
        record_property(column, replay.figures[column])
    cells = "".join(f"{replay.figures[column]:>14,}" for column in COLUMNS)
    print(f"{strategy:<14}{window:>9,}{cells}  ({', '.join(COLUMNS)})")
    assert replay.faults == []
    assert replay.figures["transcripts"] >= 20
    assert replay.figures["requests"] > 500


# --- growth of work ---


def operations(strategy: str, messages: int) -> int:
    """Returns the operations of one collection of a history whose tokens are counted."""
    session = GCSession(context_limit=1_000_000, counter=COUNTER, registry=REGISTRY)
    for message in long_history(messages // 4):
        session.append(message)
    plugin = load_gc_plugin(strategy, STRATEGIES[strategy])
    total = session.budget.total_tokens()
    session.budget.context_limit = total
    usage, config = session.get_context_usage(), GCConfig()
    history = [*session.history]

    def collect() -> None:
        _, done = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD, session.budget)
        assert done.outcome is GCOutcome.REACHED

    collect()
    return count_operations(collect)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_work_of_a_collection_is_linear_in_the_history(strategy: str) -> None:
    small, large = (operations(strategy, messages) for messages in (1_000, 4_000))

    assert large <= 4 * small * 1.3


def test_budget_does_no_more_than_four_times_the_work_of_truncate() -> None:
    assert operations("gc_budget", 4_000) <= 4 * operations("gc_truncate", 4_000)


# --- what providers count differently ---


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("ratio", "unbooked"), [(0.625, 0), (1.375, 3_000)])
def test_a_goal_is_reached_in_the_providers_unit(name: str, ratio: float, unbooked: int) -> None:
    session = GCSession(context_limit=40_000, counter=COUNTER)
    session.set_gc_plugin(load_gc_plugin(name, STRATEGIES[name]), GCConfig(auto_trigger=False))
    session.budget.ratio, session.budget.unbooked_tokens = ratio, unbooked
    while session.budget.total_tokens() < 38_000:
        for message in long_history(1):
            session.append(Message(message.role, message.parts))
    target = 40_000 * 0.6

    result = session.manual_gc()

    assert result.outcome is GCOutcome.REACHED
    assert session.budget.total_tokens() == result.tokens_after <= target
    assert result.tokens_after > 0.75 * target, "more was removed than needed"
    counted = count_tokens(session.history, COUNTER)
    assert result.tokens_after == int(ratio * counted) + unbooked
