"""Faults at any step, and concurrent calls, leave the old state or the new one."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from thread_runs import in_threads

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCError,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    Role,
    StalePlanError,
    SyntheticKind,
    ToolResult,
)
from jaato_gc.plugin import Collection, fenced, hookimpl
from jaato_gc_testing import (
    COUNTER,
    LONG_TEXT,
    MemoryStash,
    OldestFirst,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    saved_state,
    speak,
)

PLUGIN, ENRICHMENT = InstructionSource.PLUGIN, InstructionSource.ENRICHMENT


class Oldest(OldestFirst):
    """Replaces the oldest turns by a summary.

    Args:
        pause: Called while the collection is running.
    """

    def __init__(self, pause: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.pause = pause
        self.elsewhere: list[tuple[InstructionSource, str | None]] = []

    def select(self, collection: Collection) -> None:
        self.pause()
        removable = [group for group in collection.groups if collection.may_remove(group)]
        super().select(collection)
        removed = [group for group in removable if not collection.may_remove(group)]
        if removed:
            text = fenced(SyntheticKind.SUMMARY, f"{len(removed)} groups")
            summary_id = f"summary-{removed[0].messages[0].message_id}"
            summary = Message.from_text(
                Role.USER, text, message_id=summary_id, synthetic=SyntheticKind.SUMMARY
            )
            collection.insert(summary, collection.position_before(removed))
        for source, key in self.elsewhere:
            collection.remove_source(source, key, 0, "elsewhere")


class BrokenCounter(EstimateCounter):
    """Counts as the estimate does, but fails once."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.calls = 0

    def count_text(self, text: str) -> int:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("counter out of order")
        return super().count_text(text)


def recent_only(plugin: GCPlugin | None = None, /, **options: Any) -> GCSession:
    """Returns a session that preserves one recent turn."""
    config = GCConfig(preserve_recent_turns=1)
    return new_session(plugin or Oldest(), config, **({"context_limit": 2000} | options))


def restored(saved: str, **options: Any) -> GCSession:
    registry = PluginRegistry(load_installed=False)
    given: dict[str, Any] = {
        "counter": COUNTER,
        "registry": registry,
        "context_limit": 2000,
    } | options
    return GCSession.restore(saved, strategy=Oldest(), **given)


def message(name: str) -> Message:
    """Returns a new message each time, because token counts are remembered on messages."""
    role = {"u": Role.USER, "a": Role.MODEL}[name[0]]
    return Message.from_text(role, f"{name} {LONG_TEXT}", message_id=name)


def exchange(name: str, result: object = LONG_TEXT) -> tuple[Message, Message]:
    call = FunctionCall(name, "look", {"at": name})
    return (
        Message(Role.MODEL, [Part(function_call=call)], f"c{name}"),
        Message(Role.TOOL, [Part(function_response=ToolResult(name, "look", result))], f"r{name}"),
    )


def talk(plugin: GCPlugin | None = None, /, **options: Any) -> GCSession:
    """Returns a session with five turns."""
    session = recent_only(plugin, **options)
    speak(session, *range(5))
    return session


def stripped(value: Any) -> Any:
    """Returns a saved value without times and without the ids of collections."""
    if isinstance(value, dict):
        dropped = ("gc_id", "created_at")
        return {key: stripped(each) for key, each in value.items() if key not in dropped}
    return [stripped(each) for each in value] if isinstance(value, list) else value


def state(session: GCSession) -> Any:
    """Returns history, budget, journal, pins and counters."""
    return stripped(saved_state(session))


# --- the counter ---


Step = Callable[[GCSession, BrokenCounter], GCSession | None]


def appending(*messages: Message) -> Step:
    def step(session: GCSession, _: BrokenCounter) -> None:
        for each in messages:
            if each.message_id not in message_ids(session):
                session.append(each)

    return step


def one_by_one(*messages: Message) -> list[Step]:
    return [appending(each) for each in messages]


def collecting(session: GCSession, _: BrokenCounter) -> None:
    session.manual_gc(target_percent=1.0, preserve_recent_groups=0)


def undoing(session: GCSession, _: BrokenCounter) -> None:
    session.undo()


def restoring(session: GCSession, counter: BrokenCounter) -> GCSession:
    return restored(session.save(), counter=counter)


def steps() -> list[Step]:
    first = [message("u0"), *exchange("x"), message("a0"), message("u1"), message("a1")]
    return [
        *one_by_one(*first, message("u2"), *exchange("y"), *exchange("z")),
        collecting,
        *one_by_one(message("a2"), message("u3")),
        collecting,
        undoing,
        restoring,
        collecting,
        restoring,
        undoing,
        undoing,
        restoring,
        collecting,
    ]


def assert_in_step_with(session: GCSession, counter: BrokenCounter) -> None:
    """Checks the budget while the counter works, and without advancing its calls."""
    fails_at, calls = counter.fails_at, counter.calls
    counter.fails_at = 0
    assert_in_step(session)
    counter.fails_at, counter.calls = fails_at, calls


def run(step: Step, session: GCSession, counter: BrokenCounter) -> GCSession:
    return step(session, counter) or session


def test_a_counter_that_fails_at_any_call_leaves_the_old_state_or_the_new() -> None:
    counter = BrokenCounter()
    session = recent_only(counter=counter)
    expected = [state(session)]
    for step in steps():
        session = run(step, session, counter)
        expected.append(state(session))
    total = counter.calls
    assert total > 50
    for fails_at in range(1, total + 1):
        counter = BrokenCounter(fails_at)
        session = recent_only(counter=counter)
        for number, step in enumerate(steps()):
            old, new = expected[number : number + 2]
            try:
                session = run(step, session, counter)
                now = state(session)
            except RuntimeError:
                now = state(session)
                assert now == old
            if now != new:
                assert now == old, (fails_at, number)
                assert_in_step_with(session, counter)
                session = run(step, session, counter)
                assert state(session) == new, (fails_at, number)
            assert_in_step_with(session, counter)


@pytest.mark.parametrize("collide", [False, True])
def test_a_message_that_cannot_be_counted_is_not_appended(collide: bool) -> None:
    counter = BrokenCounter()
    session = talk(counter=counter)
    before = state(session)
    counter.fails_at = counter.calls + 1
    with pytest.raises(RuntimeError):
        session.append(message("u1" if collide else "u9"))
    assert state(session) == before


# --- the host's own code ---


@pytest.mark.parametrize("fault", ["raises", "nonsense"])
@pytest.mark.parametrize("at", ["u0", "u1", "cx"])
def test_a_failing_policy_callable_leaves_no_trace(fault: str, at: str) -> None:
    broken = True

    def policy_of(message: Message) -> GCPolicy | None:
        if not broken or message.message_id != at:
            return None
        if fault == "raises":
            raise RuntimeError("no idea")
        return "high"  # type: ignore[return-value]

    sessions = [recent_only(policy_of=policy_of), recent_only()]
    for each in (message("u0"), message("a0"), message("u1"), *exchange("x")):
        for session in sessions:
            if session is sessions[0] and each.message_id == at:
                with pytest.raises((RuntimeError, ValueError)):
                    session.append(each)
                broken = False
            session.append(each)
    assert state(sessions[0]) == state(sessions[1])


class Shelf(MemoryStash):
    """A stash that records what it is given."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.kept: list[tuple[str, list[str], list[str]]] = []
        self.fails = fails
        self.session: GCSession | None = None

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        assert self.session is not None
        self.kept.append((gc_id, [each.message_id for each in messages], message_ids(self.session)))
        if self.fails:
            raise OSError("disk full")
        return super().put(gc_id, messages)


def shelved_session(shelf: Shelf, plugin: GCPlugin | None = None) -> GCSession:
    session = talk(plugin, stash=shelf)
    shelf.session = session
    return session


def test_the_stash_is_written_before_anything_is_removed() -> None:
    shelf = Shelf()
    session = shelved_session(shelf)
    before = message_ids(session)
    result = session.manual_gc()
    removed = [each for item in result.removal_list for each in item.message_ids]
    assert shelf.kept == [(result.gc_id, removed, before)]


def test_a_failing_stash_leaves_everything_unchanged() -> None:
    shelf = Shelf(fails=True)
    session = shelved_session(shelf)
    before = state(session)
    result = session.manual_gc()
    assert result.outcome is GCOutcome.FAILED
    assert "disk full" in str(result.error)
    assert (result.tokens_freed, result.items_collected, result.removal_list) == (0, 0, [])
    assert state(session) == before


def test_content_that_is_not_worth_keeping_is_not_stashed() -> None:
    def throw_away(collection: Collection) -> None:
        for turn in collection.turns:
            collection.remove(turn.groups, turn.key, "worthless", stash=False)

    shelf = Shelf()
    session = shelved_session(shelf, ScriptedStrategy(throw_away))
    assert session.manual_gc().success
    assert shelf.kept == []


def test_a_stale_plan_is_not_stashed() -> None:
    shelf = Shelf()
    session = shelved_session(shelf)
    plan = session.plan_gc()
    session.manual_gc()
    with pytest.raises(StalePlanError):
        session.apply(plan)
    assert len(shelf.kept) == 1


@pytest.mark.parametrize("change", ["pinned", "collected"])
def test_a_plan_that_becomes_stale_while_its_content_is_stashed_is_not_applied(change: str) -> None:
    class Interrupting(Shelf):
        def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
            keys = super().put(gc_id, messages)
            if len(self.kept) == 1:
                if change == "pinned":
                    session.pin("u2")
                else:
                    session.manual_gc(preserve_recent_turns=3)
            return keys

    session = shelved_session(Interrupting())
    before = message_ids(session)
    plan = session.plan_gc()
    with pytest.raises(StalePlanError, match="new plan"):
        session.apply(plan)
    kept = before if change == "pinned" else ["u0", "summary-a0", *before[4:]]
    assert message_ids(session) == kept
    assert_in_step(session)


class Host:
    """A host with tools and enrichment that fails to drop the n-th of them."""

    def __init__(self, fails_at: int = 0, error: type[BaseException] = RuntimeError) -> None:
        self.held = {(PLUGIN, "search"): 40, (PLUGIN, "fetch"): 30, (ENRICHMENT, None): 20}
        self.fails_at = fails_at
        self.error = error
        self.calls = 0
        self.then: Callable[[], object] = lambda: None

    def drop(self, source: InstructionSource, key: str | None) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise self.error("stuck")
        self.held.pop((source, key), None)
        self.then()

    def session(self) -> GCSession:
        plugin = Oldest()
        plugin.elsewhere = list(self.held)
        session = talk(plugin, on_source_removed=self.drop)
        for (source, key), tokens in self.held.items():
            if key is None:
                session.budget.update_tokens(source, tokens)
            else:
                session.budget.add_child(source, key, tokens, GCPolicy.EPHEMERAL)
        return session

    def assert_in_step(self, session: GCSession) -> None:
        """Checks that the budget outside the history equals what the host has."""
        assert_in_step(session)
        entries = session.budget.entries
        assert set(entries[PLUGIN].children) == {key for _, key in self.held} - {None}
        total = sum(entries[each].total_tokens() for each in (PLUGIN, ENRICHMENT))
        assert total == sum(self.held.values())


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_the_history_is_unchanged_if_the_host_fails_to_drop_something(fails_at: int) -> None:
    host = Host(fails_at)
    session = host.session()
    history = session.history
    result = session.manual_gc()
    assert result.outcome is GCOutcome.FAILED
    assert "stuck" in str(result.error)
    assert session.history == history
    assert len(result.removal_list) == result.items_collected == fails_at - 1
    assert result.tokens_freed == [0, 40, 70][fails_at - 1]
    host.assert_in_step(session)
    session.strategy.elsewhere = list(host.held)  # type: ignore[union-attr]
    assert session.manual_gc().success
    assert host.held == {}
    host.assert_in_step(session)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_the_history_is_unchanged_if_the_host_is_interrupted_while_dropping(fails_at: int) -> None:
    host = Host(fails_at, KeyboardInterrupt)
    session = host.session()
    history = session.history
    with pytest.raises(KeyboardInterrupt):
        session.manual_gc()
    assert session.history == history
    host.assert_in_step(session)


def test_a_pin_set_while_the_host_drops_something_is_respected() -> None:
    host = Host()
    session = host.session()

    def pin() -> None:
        session.strategy.elsewhere = []  # type: ignore[union-attr]
        session.pin("u2")

    host.then = pin
    assert session.manual_gc().success
    assert message_ids(session) == ["u0", "summary-a0", "u2", "u4", "a4"]
    host.assert_in_step(session)
    # What the host had dropped by then is gone, and a result says so.
    first, second = session.get_gc_history()
    assert (first.outcome, second.outcome) == (GCOutcome.FAILED, GCOutcome.REACHED)
    assert first.tokens_freed == 90
    assert "pinned since" in str(first.error)


def test_an_interrupted_collection_can_be_tried_again() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    plugin = Oldest(interrupt)
    session = talk(plugin)
    before = state(session)
    with pytest.raises(KeyboardInterrupt):
        session.manual_gc()
    assert state(session) == before
    plugin.pause = lambda: None
    assert session.manual_gc().success


# --- observers ---


class Saboteur:
    """Observes everything and fails at its n-th call."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.calls = 0

    def see(self, *_: Any) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("sabotage")

    @hookimpl
    def jaato_gc_before_collect(self) -> None:
        self.see()

    @hookimpl
    def jaato_gc_after_collect(self) -> None:
        self.see()

    @hookimpl
    def jaato_gc_budget_updated(self) -> None:
        self.see()

    on_agent_instruction_budget_updated = see

    def talk(self) -> GCSession:
        registry = PluginRegistry(load_installed=False)
        registry.register(self, "saboteur")
        session = talk(registry=registry, on_instruction_budget_updated=self.see, ui_hooks=self)
        session.manual_gc()
        session.undo()
        session.manual_gc()
        return session


def test_an_observer_that_fails_at_any_call_changes_nothing() -> None:
    honest = Saboteur()
    expected = state(honest.talk())
    assert honest.calls > 30
    for fails_at in range(1, honest.calls + 1):
        saboteur = Saboteur(fails_at)
        session = saboteur.talk()
        assert state(session) == expected
        assert saboteur.calls == honest.calls


def test_an_observer_may_save_and_collect() -> None:
    registry = PluginRegistry(load_installed=False)

    class Eager:
        @hookimpl
        def jaato_gc_after_collect(self, result: GCResult) -> None:
            session.save()
            if result.trigger_reason is GCTriggerReason.MANUAL and len(session.history) > 5:
                session.manual_gc(preserve_recent_turns=1)

    registry.register(Eager(), "eager")
    session = talk(registry=registry)
    session.manual_gc(preserve_recent_turns=3)
    assert message_ids(session)[-2:] == ["u4", "a4"]
    assert_in_step(session)


# --- saving ---


def test_a_session_that_cannot_be_saved_stays_usable() -> None:
    session = talk()
    before = state(session)
    call, answer = exchange("x", object())
    session.append(message("u5"))
    session.append(call)
    session.append(answer)
    for _ in range(2):
        with pytest.raises(GCError, match="rx"):
            session.save()
    assert session.manual_gc().success
    assert_in_step(session)
    session.undo()
    assert session.history[: len(before["history"])] == talk().history


# --- threads ---


class Meanwhile:
    """Runs a function once, while a strategy is running."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work

    def __call__(self) -> None:
        work, self.work = self.work, None
        if work:
            in_threads(work)


def test_messages_appended_during_a_collection_follow_what_it_leaves() -> None:
    def arrive() -> None:
        in_threads(*(lambda name=name: tell(name) for name in "pqr"))

    def tell(name: str) -> None:
        for number in range(20):
            text = f"{name} {number}"
            session.append(Message.from_text(Role.USER, text, message_id=f"{name}{number}"))

    session = talk(Oldest(Meanwhile(arrive)))
    result = session.manual_gc()
    assert result.outcome is GCOutcome.REACHED
    assert message_ids(session)[:4] == ["u0", "summary-a0", "u4", "a4"]
    for name in "pqr":
        told = [each for each in message_ids(session) if each.startswith(name)]
        assert told == [f"{name}{number}" for number in range(20)]
    assert len(session.history) == 4 + 60
    assert_in_step(session)
    session.undo()
    assert len(session.history) == 10 + 60
    assert message_ids(session)[:10] == message_ids(talk())
    assert_in_step(session)


@pytest.mark.parametrize("change", ["plan and append", "apply", "undo"])
def test_a_strategy_sees_no_change_while_it_works(change: str) -> None:
    seen: list[Any] = []

    class Curious(Oldest):
        def select(self, collection: Collection) -> None:
            assert collection.budget is not None
            before = collection.budget.snapshot()
            super().select(collection)
            seen.append((before, collection.budget.snapshot()))

    def meanwhile() -> None:
        if change == "plan and append":
            session.plan_gc()
            speak(session, 5)
        elif change == "apply":
            session.apply(plan)
        else:
            session.undo()

    plugin = Curious()
    session = talk(plugin)
    session.manual_gc(preserve_recent_turns=3)
    plan = session.plan_gc(preserve_recent_turns=2)
    plugin.pause = Meanwhile(meanwhile)
    session.manual_gc()
    # An undo leaves the messages of the running plan unchanged, so it is not made again.
    assert len(seen) == (3 if change == "undo" else 4)
    assert all(before == after for before, after in seen)
    assert_in_step(session)


@pytest.mark.parametrize("change", ["pin", "undo", "window", "save"])
def test_a_change_during_a_collection_is_respected(change: str) -> None:
    saved: list[str] = []
    work: dict[str, Callable[[], object]] = {
        "pin": lambda: session.pin("u3"),
        "undo": lambda: session.undo(),
        "window": lambda: session.set_context_limit(1234),
        "save": lambda: saved.append(session.save()),
    }
    plugin = Oldest()
    session = talk(plugin)
    session.manual_gc(preserve_recent_turns=3)
    plugin.pause = Meanwhile(work[change])
    assert session.manual_gc().success
    assert_in_step(session)
    assert message_ids(session)[-2:] == ["u4", "a4"]
    assert ("u3" in message_ids(session)) is (change == "pin")
    assert session.budget.context_limit == (1234 if change == "window" else 2000)
    for each in saved:
        again = restored(each)
        assert len(again.history) == 8
        assert_in_step(again)
    for _ in range(1 if change == "undo" else 2):
        session.undo()
    assert message_ids(session) == message_ids(talk())


def test_an_automatic_collection_does_not_run_beside_another_one() -> None:
    results: list[GCResult | None] = []
    session = talk(
        Oldest(Meanwhile(lambda: results.append(session.after_turn()))), context_limit=700
    )
    assert session.manual_gc().success
    assert results == [None]


@pytest.mark.usefixtures("_restless")
def test_two_threads_may_collect_at_once() -> None:
    session = recent_only(on_instruction_budget_updated=lambda _: None)

    def work(first: int) -> None:
        for turn in range(first, first + 15):
            speak(session, turn)
            result = session.manual_gc(preserve_recent_turns=2)
            assert result.success, result.error
            session.before_send()
            session.after_turn()

    in_threads(lambda: work(100), lambda: work(200))
    assert_in_step(session)
    while any(
        result.items_collected and not session.was_undone(result.gc_id or "")
        for result in applied(session)
    ):
        session.undo()
        assert_in_step(session)
    for first in (100, 200):
        expected = [f"{who}{turn}" for turn in range(first, first + 15) for who in "ua"]
        assert [each for each in message_ids(session) if each in expected] == expected


def applied(session: GCSession) -> list[GCResult]:
    return [each for each in session.get_gc_history() if each.success]


@pytest.mark.usefixtures("_restless")
def test_threads_may_append_save_pin_and_look_at_once() -> None:
    session = recent_only(on_instruction_budget_updated=lambda _: None)
    speak(session, 0)

    pinned: set[str] = set()

    def tell(first: int) -> None:
        for turn in range(first, first + 20):
            speak(session, turn)
            with contextlib.suppress(GCError):  # collected already
                session.pin(f"u{turn}")
                pinned.add(f"u{turn}")

    def look() -> None:
        for _ in range(20):
            restored(session.save())
            session.get_context_usage()
            session.manual_gc()

    in_threads(lambda: tell(100), lambda: tell(200), look)
    assert session.budget.pinned_message_ids == pinned != set()
    assert pinned <= set(message_ids(session))
    assert_in_step(session)


def test_a_plan_made_while_messages_arrive_can_be_applied() -> None:
    session = talk(Oldest(Meanwhile(lambda: speak(session, 5))))
    plan = session.plan_gc()
    speak(session, 6)
    session.apply(plan)
    assert message_ids(session) == ["u0", "summary-a0", *("u4", "a4", "u5", "a5", "u6", "a6")]
    assert_in_step(session)
