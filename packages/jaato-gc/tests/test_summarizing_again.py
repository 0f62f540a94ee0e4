"""Collecting the same turns again: no two summaries in a history have the same id."""

from collections.abc import Callable
from typing import Any

import pytest

from jaato_gc import GCConfig, GCSession, SyntheticKind
from jaato_gc.plugin import Collection, GCStrategy, SummarySettings, TurnSummarizer
from jaato_gc_testing import (
    MemoryStash,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
    speak,
)


class Summarize(GCStrategy[SummarySettings]):
    """Summarizes the oldest turns without a model; lists the rest in a ledger."""

    name = "gc_summarizing"
    settings_model = SummarySettings

    def select(self, collection: Collection) -> None:
        collection.leave_ledger()
        TurnSummarizer(collection, self.settings).summarize_oldest(collection.turns, "old")
        collection.remove_oldest(collection.turns, "older")


class Overriding(Summarize):
    """Is called through `collect`, which makes its own collection."""

    def collect(self, *arguments: Any, **named: Any) -> Any:
        return super().collect(*arguments, **named)


def session_with(plugin: Summarize, stash: MemoryStash | None = None) -> GCSession:
    """Returns a session with six turns, of which one is recent."""
    plugin.initialize({"notify_on_gc": True, "max_summaries": 9, "extractive": True})
    config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0)
    session = new_session(plugin, config, stash=stash or MemoryStash())
    speak(session, *range(6), calls=1)
    return session


def summaries(session: GCSession) -> list[str]:
    history = session.history
    return [each.message_id for each in history if each.synthetic is SyntheticKind.SUMMARY]


def restore_all(session: GCSession) -> None:
    """Restores everything that the newest collection removed, at its old place."""
    result = session.get_gc_history()[-1]
    session.restore_stashed(key for item in result.removal_list for key in item.stash_keys)


@pytest.mark.parametrize("form", [Summarize, Overriding])
@pytest.mark.parametrize("restart", [lambda each: each, restarted], ids=["same", "restarted"])
def test_restored_turns_can_be_summarized_again(
    form: Callable[[], Summarize], restart: Callable[[GCSession], GCSession]
) -> None:
    session = session_with(form())
    seen: set[str] = set()
    for _ in range(3):
        result = session.manual_gc()
        assert result.success, result.error
        (new,) = set(summaries(session)) - seen
        seen.add(new)
        restore_all(session)
        assert {"u1", "a4"} <= set(message_ids(session))
        session = restart(session)
        assert_in_step(session)
    assert len(summaries(session)) == 3
    assert message_ids(session).count("gc_notice") == 1


@pytest.mark.parametrize("restart", [lambda each: each, restarted], ids=["same", "restarted"])
def test_turns_can_be_summarized_again_after_an_undo(
    restart: Callable[[GCSession], GCSession],
) -> None:
    session = session_with(Summarize())
    before = session.history
    for _ in range(2):
        assert session.manual_gc().success
        restore_all(session)
        session.undo()
        session = restart(session)
        session.undo()
        assert session.history == before
        session = restart(session)
    assert session.manual_gc().success
    restore_all(session)
    result = session.manual_gc()
    assert result.success, result.error
    assert len(summaries(session)) == 2


def test_restored_calls_can_be_listed_in_the_ledger_again() -> None:
    class Ledger(Summarize):
        def select(self, collection: Collection) -> None:
            collection.leave_ledger()
            collection.remove_oldest(collection.turns, "old")

    session = session_with(Ledger())
    for _ in range(3):
        result = session.manual_gc()
        assert result.success, result.error
        assert message_ids(session).count("gc_notice") == 1
        restore_all(session)
        assert_in_step(session)
