"""Sessions whose strategy is removed or replaced, also while it collects."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from thread_runs import in_threads

from jaato_gc import (
    ContextFloorError,
    GCConfig,
    GCOutcome,
    GCSession,
    GCTriggerReason,
    Message,
    NotConfiguredError,
    PluginRegistry,
    Role,
)
from jaato_gc.plugin import Collection, hookimpl
from jaato_gc_testing import (
    MemoryStash,
    OldestFirst,
    assert_in_step,
    message_ids,
    new_session,
    restarted,
    speak,
)

RECENT = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1, target_percent=5.0)

Remove = Callable[[GCSession], None]
each_way = pytest.mark.parametrize(
    "remove",
    [GCSession.remove_gc_plugin, lambda session: session.set_gc_plugin(None), GCSession.close],
    ids=["remove_gc_plugin", "set_gc_plugin(None)", "close"],
)


class Closing(OldestFirst):
    """Counts how often it is shut down."""

    def __init__(self) -> None:
        super().__init__()
        self.shutdowns = 0

    def shutdown(self) -> None:
        self.shutdowns += 1


class Meanwhile(Closing):
    """Runs a function in another thread while it collects, once."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.work: Callable[[], object] | None = work

    def select(self, collection: Collection) -> None:
        super().select(collection)
        work, self.work = self.work, None
        if work:
            in_threads(work)


def filled(plugin: Any, config: GCConfig = RECENT, **options: Any) -> GCSession:
    session = new_session(plugin, config, **{"context_limit": 4_000, **options})
    for number in range(4):
        speak(session, number)
    return session


# --- between collections ---


@each_way
def test_a_session_without_its_strategy_is_like_one_that_never_had_any(remove: Remove) -> None:
    plugin = Closing()
    session = filled(plugin)
    before = message_ids(session)

    remove(session)

    assert session.strategy is None
    assert session.config == GCConfig()
    assert session.paused_because is None
    assert plugin.shutdowns == 1
    assert session.after_turn() is None
    with pytest.raises(NotConfiguredError, match="set_gc_plugin"):
        session.manual_gc()
    session.set_context_limit(200)
    session.append(Message.from_text(Role.USER, "Go on"))
    assert not session.recover_from_refusal()
    with pytest.raises(ContextFloorError, match="No strategy is set"):
        session.before_send()
    assert message_ids(session)[:-1] == before


@each_way
def test_removing_a_strategy_again_does_nothing(remove: Remove) -> None:
    plugin = Closing()
    session = filled(plugin)

    remove(session)
    remove(session)

    assert plugin.shutdowns == 1
    assert session.strategy is None


def test_another_strategy_can_be_set_after_one_was_removed() -> None:
    session = filled(Closing())
    session.remove_gc_plugin()
    session.set_gc_plugin(OldestFirst(), RECENT)

    assert session.manual_gc().outcome is GCOutcome.REACHED


def test_collections_can_be_undone_and_saved_after_the_strategy_was_removed() -> None:
    session = filled(Closing())
    before = message_ids(session)
    session.manual_gc()

    session.remove_gc_plugin()
    restored = restarted(session)

    for each in (session, restored):
        assert each.strategy is None
        each.undo()
        assert message_ids(each) == before
        assert_in_step(each)


def test_a_plan_of_the_host_can_be_applied_after_the_strategy_was_removed() -> None:
    session = filled(Closing())
    plan = session.plan_gc()
    session.remove_gc_plugin()

    result = session.apply(plan)

    assert result.tokens_freed > 0
    assert message_ids(session) == [message.message_id for message in plan.after]


def test_pins_stay_when_the_strategy_is_removed() -> None:
    session = filled(Closing(), GCConfig(pinned_turn_indices=[1]))
    session.remove_gc_plugin()
    session.set_gc_plugin(OldestFirst(), RECENT)
    session.manual_gc()

    assert "u1" in message_ids(session)


def test_a_strategy_that_gets_another_configuration_is_not_shut_down() -> None:
    plugin = Closing()
    session = filled(plugin)

    session.set_gc_plugin(plugin, GCConfig(threshold_percent=70.0))

    assert plugin.shutdowns == 0
    assert session.config.threshold_percent == 70.0
    session.close()
    assert plugin.shutdowns == 1


# --- during a collection ---


@each_way
@pytest.mark.parametrize("stash", [False, True])
def test_a_collection_is_not_applied_if_its_strategy_was_removed_meanwhile(
    remove: Remove, stash: bool
) -> None:
    plugin = Meanwhile(lambda: remove(session))
    memory = MemoryStash()
    session = filled(plugin, stash=memory if stash else None)
    before = message_ids(session)

    with pytest.raises(NotConfiguredError, match="set_gc_plugin"):
        session.manual_gc()

    assert message_ids(session) == before
    assert session.get_gc_history() == []
    assert plugin.shutdowns == 1
    assert memory.stats().entries == 0
    assert_in_step(session)


@each_way
def test_an_automatic_collection_ends_quietly_if_its_strategy_was_removed_meanwhile(
    remove: Remove,
) -> None:
    plugin = Meanwhile(lambda: remove(session))
    session = filled(plugin, GCConfig(threshold_percent=1.0, preserve_recent_turns=1))
    before = message_ids(session)

    assert session.after_turn() is None
    assert message_ids(session) == before
    assert session.get_gc_history() == []


@pytest.mark.parametrize("on_overflow", ["relax", "raise"])
def test_a_request_that_does_not_fit_is_refused_if_its_strategy_was_removed_meanwhile(
    on_overflow: Any,
) -> None:
    plugin = Meanwhile(lambda: session.remove_gc_plugin())
    session = filled(plugin, on_overflow=on_overflow, context_limit=400)
    session.append(Message.from_text(Role.USER, "Go on"))
    before = message_ids(session)

    with pytest.raises(ContextFloorError, match="No strategy is set"):
        session.before_send()

    assert message_ids(session) == before


def test_a_refused_request_is_not_smaller_if_the_strategy_was_removed_meanwhile() -> None:
    session = filled(Meanwhile(lambda: session.remove_gc_plugin()), context_limit=400)

    assert not session.recover_from_refusal()


class Failing(Meanwhile):
    def select(self, collection: Collection) -> None:
        super().select(collection)
        raise RuntimeError("its resources are released")


def test_the_failure_of_a_strategy_that_was_removed_meanwhile_is_not_recorded() -> None:
    session = filled(Failing(lambda: session.remove_gc_plugin()))

    with pytest.raises(NotConfiguredError):
        session.manual_gc()

    assert session.get_gc_history() == []


def test_a_new_strategy_plans_the_collection_if_it_replaced_the_old_one_meanwhile() -> None:
    class Newer(OldestFirst):
        name = "gc_newer"

    session = filled(Meanwhile(lambda: session.set_gc_plugin(Newer(), RECENT)))

    result = session.manual_gc()

    assert (result.plugin_name, result.outcome) == ("gc_newer", GCOutcome.REACHED)
    assert [each.plugin_name for each in session.get_gc_history()] == ["gc_newer"]


def test_a_strategy_may_be_removed_by_an_observer_of_its_collection() -> None:
    class Remover:
        @hookimpl
        def jaato_gc_after_collect(self) -> None:
            session.remove_gc_plugin()

    registry = PluginRegistry(load_installed=False)
    registry.register(Remover(), "remover")
    session = filled(Closing(), registry=registry)

    assert session.manual_gc().outcome is GCOutcome.REACHED
    assert session.strategy is None


@pytest.mark.usefixtures("_restless")
def test_no_collection_is_applied_after_its_strategy_was_removed() -> None:
    session = new_session(context_limit=20_000)
    config = GCConfig(threshold_percent=1.0, preserve_recent_turns=1)
    done = threading.Event()

    def change() -> None:
        try:
            for number in range(60):
                session.set_gc_plugin(OldestFirst(), config)
                speak(session, number)
                session.remove_gc_plugin()
                collected = session.collection_count
                history = message_ids(session)
                session.get_context_usage()
                assert session.collection_count == collected
                assert message_ids(session) == history
        finally:
            done.set()

    def collect() -> None:
        while not done.is_set():
            session.after_turn()

    in_threads(change, collect, collect)
    assert_in_step(session)
    assert all(
        each.trigger_reason is GCTriggerReason.THRESHOLD for each in session.get_gc_history()
    )
