"""Observers hear of every step of a session: its start and end, collections, undo and restore."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCSession,
    PluginRegistry,
    SavedSessionError,
    UndoError,
)
from jaato_gc.plugin import hookimpl
from jaato_gc.plugins import hookspecs
from jaato_gc_testing import (
    COUNTER,
    MemoryStash,
    OldestFirst,
    message_ids,
    new_session,
    speak,
)

OBSERVING = [
    "jaato_gc_session_started",
    "jaato_gc_strategy_set",
    "jaato_gc_before_collect",
    "jaato_gc_after_collect",
    "jaato_gc_after_undo",
    "jaato_gc_after_restore",
    "jaato_gc_threshold_crossed",
    "jaato_gc_budget_updated",
    "jaato_gc_session_ended",
]
START = ["session_started", "strategy_set"]
END = ["strategy_set", "session_ended"]


class Log:
    """Records every call of an observing hook, without updates of the budget."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @property
    def hooks(self) -> list[str]:
        return [hook.removeprefix("jaato_gc_") for hook, _ in self.calls]

    def last(self, hook: str) -> dict[str, Any]:
        return next(given for name, given in reversed(self.calls) if name == f"jaato_gc_{hook}")


def _recording(hook: str) -> Any:
    def record(self: Log, **arguments: Any) -> None:
        self.calls.append((hook, arguments))

    return hookimpl(record)


for each in OBSERVING:
    if each != "jaato_gc_budget_updated":
        setattr(Log, each, _recording(each))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def registry(log: Log) -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(log, "log")
    return registry


def start(registry: PluginRegistry, **options: Any) -> GCSession:
    session = new_session(
        OldestFirst(),
        GCConfig(preserve_recent_turns=1),
        **{"registry": registry, "agent_id": "scout", "session_id": "s-1", **options},
    )
    speak(session, 0, 1, 2)
    return session


def test_every_observing_hook_has_the_ids_of_session_and_agent() -> None:
    hooks = {name: hook for name, hook in vars(hookspecs).items() if name in OBSERVING}

    assert len(hooks) == len(OBSERVING)
    for hook in hooks.values():
        assert {"agent_id", "session_id"} <= hook.__annotations__.keys()


def test_observers_hear_of_a_whole_session_in_order(registry: PluginRegistry, log: Log) -> None:
    with start(registry, stash=MemoryStash(), context_limit=2_000) as session:
        session.report_usage(1_900)
        [item, *_] = session.manual_gc().removal_list
        session.restore_stashed(item.stash_keys)
        session.undo()
        session.undo()

    assert log.hooks == [
        "session_started",
        "strategy_set",
        "threshold_crossed",
        "before_collect",
        "after_collect",
        "after_restore",
        "after_undo",
        "after_undo",
        "strategy_set",
        "session_ended",
    ]
    for hook, given in log.calls:
        assert (given["agent_id"], given["session_id"]) == ("scout", "s-1"), hook


def test_strategy_set_has_the_strategy_and_the_effective_configuration(
    registry: PluginRegistry, log: Log
) -> None:
    session = GCSession(registry=registry)
    assert log.hooks == ["session_started"]

    session.remove_gc_plugin()  # there is none
    session.set_gc_plugin(OldestFirst(), GCConfig(plugin_config={"target_percent": 50.0}))
    session.set_gc_plugin(OldestFirst(), GCConfig(threshold_percent=70.0))
    saved = session.save()
    session.remove_gc_plugin()
    session.close()
    GCSession.restore(saved, strategy=OldestFirst(), registry=registry)

    changes = [given for hook, given in log.calls if hook == "jaato_gc_strategy_set"]
    assert [each["strategy"] for each in changes] == ["gc_oldest", "gc_oldest", None, "gc_oldest"]
    figures = [
        (each["config"].threshold_percent, each["config"].target_percent) for each in changes
    ]
    assert figures == [(80.0, 50.0), (70.0, 60.0), (80.0, 60.0), (70.0, 60.0)]


def test_a_strategy_that_is_refused_is_not_observed(registry: PluginRegistry, log: Log) -> None:
    session = GCSession(registry=registry)

    with pytest.raises(GCConfigError):
        session.set_gc_plugin(OldestFirst(), GCConfig(plugin_config={"target_percent": -1}))

    assert log.hooks == ["session_started"]


def test_after_undo_has_the_result_that_was_undone_and_the_history_after_it(
    registry: PluginRegistry, log: Log
) -> None:
    session = start(registry)
    before = session.history
    result = session.manual_gc()
    session.undo()

    given = log.last("after_undo")
    assert given["result"] == result
    assert session.was_undone(result.gc_id or "")
    assert list(given["history"]) == before == session.history


def test_an_undo_that_fails_is_not_observed(registry: PluginRegistry, log: Log) -> None:
    session = start(registry)
    with pytest.raises(UndoError):
        session.undo()

    assert log.hooks == START


@pytest.mark.parametrize("at", ["place", "tail"])
def test_after_restore_has_its_result_and_the_history_after_it(
    registry: PluginRegistry, log: Log, at: Any
) -> None:
    session = start(registry, stash=MemoryStash())
    [item, *_] = session.manual_gc().removal_list
    result = session.restore_stashed(item.stash_keys, at)

    given = log.last("after_restore")
    assert given["result"] == result
    assert given["result"].details["restored"] == item.message_ids
    assert [each.message_id for each in given["history"]] == message_ids(session)


def test_a_session_ends_once_however_often_it_is_closed(registry: PluginRegistry, log: Log) -> None:
    session = start(registry)
    session.close()
    session.close()
    with session:
        pass

    assert log.hooks == [*START, *END]


def test_a_session_that_many_threads_close_ends_once(registry: PluginRegistry, log: Log) -> None:
    session = start(registry)
    at_once = threading.Barrier(8)

    def close(_: int) -> None:
        at_once.wait()
        session.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(close, range(8)))

    assert log.hooks == [*START, *END]


def test_leaving_a_with_block_closes_the_session_after_an_error_too(
    registry: PluginRegistry, log: Log
) -> None:
    class Strategy(OldestFirst):
        is_shut_down = False

        def shutdown(self) -> None:
            self.is_shut_down = True

    strategy = Strategy()
    session = start(registry)
    session.set_gc_plugin(strategy)
    with pytest.raises(ZeroDivisionError), session:
        _ = 1 / 0

    assert strategy.is_shut_down
    assert session.strategy is None
    assert log.hooks == [*START, "strategy_set", *END]


def test_a_restored_session_starts_with_the_ids_of_the_saved_one(
    registry: PluginRegistry, log: Log
) -> None:
    saved = start(PluginRegistry(load_installed=False)).save()
    restored = GCSession.restore(saved, strategy=OldestFirst(), counter=COUNTER, registry=registry)

    assert log.hooks == ["session_started", "strategy_set"]
    for _, given in log.calls:
        assert (given["agent_id"], given["session_id"]) == ("scout", "s-1")
    assert restored.budget.session_id == "s-1"


def test_a_session_that_can_not_be_restored_ends_again(registry: PluginRegistry, log: Log) -> None:
    saved = start(PluginRegistry(load_installed=False)).save()
    with pytest.raises(SavedSessionError, match="gc_oldest"):  # which no plugin offers
        GCSession.restore(saved, counter=COUNTER, registry=registry)

    assert log.hooks == ["session_started", "session_ended"]


def test_a_sub_agent_belongs_to_the_session_of_its_parent(
    registry: PluginRegistry, log: Log
) -> None:
    with start(registry) as session, session.child() as child:
        pass

    assert child.budget.session_id == "s-1"
    assert log.hooks == [*START, *START, *END, *END]
    assert {given["session_id"] for _, given in log.calls} == {"s-1"}
    agents = [given["agent_id"] for _, given in log.calls]
    assert agents == ["scout"] * 2 + ["scout-child"] * 4 + ["scout"] * 2


def test_observers_that_fail_break_neither_start_nor_end_nor_undo(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing:
        pass

    def fail(self: object) -> None:
        raise RuntimeError(f"{self}: no disk left")

    for hook in OBSERVING:
        setattr(Failing, hook, hookimpl(fail))
    registry = PluginRegistry(load_installed=False)
    registry.register(Failing(), "failing")

    with start(registry, stash=MemoryStash()) as session:
        before = session.history
        [item, *_] = session.manual_gc().removal_list
        session.restore_stashed(item.stash_keys)
        session.undo()
        session.undo()

    assert session.history == before
    messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    for hook in OBSERVING:
        if hook != "jaato_gc_threshold_crossed":
            assert any(f"failed in {hook}" in message for message in messages), hook
