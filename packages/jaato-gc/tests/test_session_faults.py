"""Whatever fails at whatever step, and whoever comes in between: the old state or the new one."""

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from jaato_gc import (
    Collection,
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCError,
    GCOutcome,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    Role,
    StalePlanError,
    StrategySettings,
    SyntheticKind,
    ToolResult,
    count_tokens,
    fenced,
    hookimpl,
)
from jaato_gc_testing import MemoryStash

PLUGIN, ENRICHMENT = InstructionSource.PLUGIN, InstructionSource.ENRICHMENT
LONG = "lorem ipsum dolor sit amet " * 10


class Oldest(GCStrategy[StrategySettings]):
    """Removes the oldest turns and leaves a summary; `pause` is called in between."""

    name = "gc_oldest"

    def __init__(self, pause: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.pause = pause
        self.elsewhere: list[tuple[InstructionSource, str | None]] = []
        self.keep = True

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = Collection(self.name, history, context_usage, config, reason, budget)
        self.pause()
        collection.remove_oldest(collection.turns, "oldest")
        collection.clear_recent_results()
        after, result = collection.finish()
        for item in result.removal_list:
            item.keep = self.keep
        gone = [each for item in result.removal_list for each in item.message_ids]
        if gone:
            text = fenced(SyntheticKind.SUMMARY, f"{len(gone)} messages")
            summary = Message.from_text(
                Role.USER, text, message_id=f"summary-{gone[0]}", synthetic=SyntheticKind.SUMMARY
            )
            after.insert(1, summary)
        result.removal_list += [GCRemovalItem(*each) for each in self.elsewhere]
        return after, result


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


def options(**given: Any) -> dict[str, Any]:
    return {
        "counter": EstimateCounter(),
        "registry": PluginRegistry(load_installed=False),
        "context_limit": 2000,
    } | given


def new_session(plugin: Oldest | None = None, /, **given: Any) -> GCSession:
    session = GCSession(**options(**given))
    session.set_gc_plugin(plugin or Oldest(), GCConfig(preserve_recent_turns=1))
    return session


def message(name: str) -> Message:
    """A new one each time: token counts are remembered on messages."""
    role = {"u": Role.USER, "a": Role.MODEL}[name[0]]
    return Message.from_text(role, f"{name} {LONG}", message_id=name)


def exchange(name: str) -> tuple[Message, Message]:
    call = FunctionCall(name, "look", {"at": name})
    return (
        Message(Role.MODEL, [Part(function_call=call)], f"c{name}"),
        Message(Role.TOOL, [Part(function_response=ToolResult(name, "look", LONG))], f"r{name}"),
    )


def say(session: GCSession, *turns: int) -> None:
    for turn in turns:
        session.append(message(f"u{turn}"))
        session.append(message(f"a{turn}"))


def talk(plugin: Oldest | None = None, /, **given: Any) -> GCSession:
    session = new_session(plugin, **given)
    say(session, *range(5))
    return session


def ids(session: GCSession) -> list[str]:
    return [each.message_id for each in session.history]


ATTEMPTS = {"plans_made", "results", "breaker", "gc_id", "created_at"}


def stripped(value: Any) -> Any:
    """Without times, and without what counts attempts."""
    if isinstance(value, dict):
        return {key: stripped(each) for key, each in value.items() if key not in ATTEMPTS}
    return [stripped(each) for each in value] if isinstance(value, list) else value


def state(session: GCSession) -> Any:
    """History, budget, journal, pins and counters."""
    return stripped(json.loads(session.save()))


def assert_in_step(session: GCSession) -> None:
    counted = count_tokens(session.history, EstimateCounter())
    elsewhere = sum(session.budget.entries[each].total_tokens() for each in (PLUGIN, ENRICHMENT))
    assert session.budget.counted_tokens() == counted + elsewhere
    assert all(session.budget.entry_of(each) for each in ids(session))


# --- the counter ---


def restored(session: GCSession, counter: BrokenCounter) -> GCSession:
    return GCSession.restore(session.save(), plugin=Oldest(), **options(counter=counter))


Step = Callable[[GCSession, BrokenCounter], GCSession | None]


def appending(*messages: Message) -> Step:
    def step(session: GCSession, _: BrokenCounter) -> None:
        for each in messages:
            if each.message_id not in ids(session):
                session.append(each)

    return step


def one_by_one(*messages: Message) -> list[Step]:
    return [appending(each) for each in messages]


def collecting(session: GCSession, _: BrokenCounter) -> None:
    session.manual_gc(target_percent=1.0, preserve_recent_groups=0)


def undoing(session: GCSession, _: BrokenCounter) -> None:
    session.undo()


def steps() -> list[Step]:
    first = [message("u0"), *exchange("x"), message("a0"), message("u1"), message("a1")]
    return [
        *one_by_one(*first, message("u2"), *exchange("y"), *exchange("z")),
        collecting,
        *one_by_one(message("a2"), message("u3")),
        collecting,
        undoing,
        restored,
        collecting,
        restored,
        undoing,
        undoing,
        restored,
        collecting,
    ]


def run(step: Step, session: GCSession, counter: BrokenCounter) -> GCSession:
    return step(session, counter) or session


def test_a_counter_that_fails_at_any_call_leaves_the_old_state_or_the_new() -> None:
    counter = BrokenCounter()
    session = new_session(counter=counter)
    expected = [state(session)]
    for step in steps():
        session = run(step, session, counter)
        expected.append(state(session))
    total = counter.calls
    assert total > 50
    for fails_at in range(1, total + 1):
        counter = BrokenCounter(fails_at)
        session = new_session(counter=counter)
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
                assert_in_step(session)
                session = run(step, session, counter)
                assert state(session) == new, (fails_at, number)
            assert_in_step(session)


@pytest.mark.parametrize("collide", [False, True])
def test_a_message_that_can_not_be_counted_is_not_appended(collide: bool) -> None:
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
def test_a_failing_policy_leaves_no_trace(fault: str, at: str) -> None:
    broken = True

    def policy_of(message: Message) -> GCPolicy | None:
        if not broken or message.message_id != at:
            return None
        if fault == "raises":
            raise RuntimeError("no idea")
        return "dear"  # type: ignore[return-value]

    sessions = [new_session(policy_of=policy_of), new_session()]
    for each in (message("u0"), message("a0"), message("u1"), *exchange("x")):
        for session in sessions:
            if session is sessions[0] and each.message_id == at:
                with pytest.raises((RuntimeError, ValueError)):
                    session.append(each)
                broken = False
            session.append(each)
    assert state(sessions[0]) == state(sessions[1])


class Shelf(MemoryStash):
    """A stash that notes what it is given."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.kept: list[tuple[str, list[str], list[str]]] = []
        self.fails = fails
        self.session: GCSession | None = None

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        assert self.session is not None
        self.kept.append((gc_id, [each.message_id for each in messages], ids(self.session)))
        if self.fails:
            raise OSError("disk full")
        return super().put(gc_id, messages)


def shelved_session(shelf: Shelf, plugin: Oldest | None = None) -> GCSession:
    session = talk(plugin, stash=shelf)
    shelf.session = session
    return session


def test_a_stash_is_written_before_anything_goes() -> None:
    shelf = Shelf()
    session = shelved_session(shelf)
    before = ids(session)
    result = session.manual_gc()
    removed = [each for item in result.removal_list for each in item.message_ids]
    assert shelf.kept == [(result.gc_id, removed, before)]


def test_a_stash_that_fails_keeps_everything_where_it_is() -> None:
    shelf = Shelf(fails=True)
    session = shelved_session(shelf)
    before = state(session)
    result = session.manual_gc()
    assert result.outcome is GCOutcome.FAILED
    assert "disk full" in str(result.error)
    assert (result.tokens_freed, result.items_collected, result.removal_list) == (0, 0, [])
    assert state(session) == before


def test_what_is_not_to_be_kept_is_not_stashed() -> None:
    shelf, plugin = Shelf(), Oldest()
    plugin.keep = False
    session = shelved_session(shelf, plugin)
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


def test_a_plan_that_becomes_stale_while_it_is_stashed_is_not_applied() -> None:
    class Undoing(Shelf):
        def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
            keys = super().put(gc_id, messages)
            if len(self.kept) == 2:
                session.undo()
            return keys

    session = shelved_session(Undoing())
    before = ids(session)
    session.manual_gc()
    say(session, 5, 6)
    plan = session.plan_gc()
    with pytest.raises(StalePlanError):
        session.apply(plan)
    assert ids(session) == [*before, "u5", "a5", "u6", "a6"]


class Host:
    """Holds tools and enrichment, and fails to drop the n-th thing."""

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
        """What the budget holds outside the history is what the host holds."""
        assert_in_step(session)
        entries = session.budget.entries
        assert set(entries[PLUGIN].children) == {key for _, key in self.held} - {None}
        total = sum(entries[each].total_tokens() for each in (PLUGIN, ENRICHMENT))
        assert total == sum(self.held.values())


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_host_that_fails_to_drop_something_keeps_its_history(fails_at: int) -> None:
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
    session.plugin.elsewhere = list(host.held)  # type: ignore[union-attr]
    assert session.manual_gc().success
    assert host.held == {}
    host.assert_in_step(session)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_host_that_is_interrupted_there_too(fails_at: int) -> None:
    host = Host(fails_at, KeyboardInterrupt)
    session = host.session()
    history = session.history
    with pytest.raises(KeyboardInterrupt):
        session.manual_gc()
    assert session.history == history
    host.assert_in_step(session)


def test_a_pin_that_comes_while_the_host_drops_things_is_respected() -> None:
    host = Host()
    session = host.session()

    def pin() -> None:
        session.plugin.elsewhere = []  # type: ignore[union-attr]
        session.pin("u2")

    host.then = pin
    assert session.manual_gc().success
    assert ids(session) == ["u0", "summary-a0", "u2", "u4", "a4"]
    host.assert_in_step(session)


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
    """Observes everything, and fails at the n-th thing it sees."""

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
    assert ids(session)[-2:] == ["u4", "a4"]
    assert_in_step(session)


# --- saving ---


def test_a_session_that_can_not_be_saved_goes_on() -> None:
    session = talk()
    before = state(session)
    call, answer = exchange("x")
    answer.parts[0].function_response.result = object()  # type: ignore[union-attr]
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


@pytest.fixture
def _restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(*work: Callable[[], object]) -> None:
    """Run all at the same time; what one raises is raised here."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(work))

    def guarded(each: Callable[[], object]) -> None:
        try:
            gate.wait()
            each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Meanwhile:
    """Something that happens while a strategy is at work, once."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work

    def __call__(self) -> None:
        work, self.work = self.work, None
        if work:
            in_threads(work)


def test_messages_that_arrive_during_a_collection_stay_behind_it() -> None:
    def arrive() -> None:
        in_threads(*(lambda name=name: tell(name) for name in "pqr"))

    def tell(name: str) -> None:
        for number in range(20):
            text = f"{name} {number}"
            session.append(Message.from_text(Role.USER, text, message_id=f"{name}{number}"))

    session = talk(Oldest(Meanwhile(arrive)))
    result = session.manual_gc()
    assert result.outcome is GCOutcome.REACHED
    assert ids(session)[:4] == ["u0", "summary-a0", "u4", "a4"]
    for name in "pqr":
        told = [each for each in ids(session) if each.startswith(name)]
        assert told == [f"{name}{number}" for number in range(20)]
    assert len(session.history) == 4 + 60
    assert_in_step(session)
    session.undo()
    assert len(session.history) == 10 + 60
    assert ids(session)[:10] == ids(talk())
    assert_in_step(session)


@pytest.mark.parametrize("change", ["plan and append", "apply", "undo"])
def test_a_strategy_sees_no_change_while_it_works(change: str) -> None:
    seen: list[Any] = []

    class Curious(Oldest):
        def collect(self, *arguments: Any) -> tuple[list[Message], GCResult]:
            before = arguments[4].snapshot()
            answer = super().collect(*arguments)
            seen.append((before, arguments[4].snapshot()))
            return answer

    def meanwhile() -> None:
        if change == "plan and append":
            session.plan_gc()
            say(session, 5)
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
    assert len(seen) == 4
    assert all(before == after for before, after in seen)
    assert_in_step(session)


@pytest.mark.parametrize("change", ["pin", "undo", "window", "save"])
def test_whatever_happens_during_a_collection_is_respected(change: str) -> None:
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
    assert ids(session)[-2:] == ["u4", "a4"]
    assert ("u3" in ids(session)) is (change == "pin")
    assert session.budget.context_limit == (1234 if change == "window" else 2000)
    for each in saved:
        again = GCSession.restore(each, plugin=Oldest(), **options())
        assert len(again.history) == 8
        assert_in_step(again)
    for _ in range(1 if change == "undo" else 2):
        session.undo()
    assert ids(session) == ids(talk())


def test_an_automatic_collection_gives_way_to_one_under_way() -> None:
    results: list[GCResult | None] = []
    session = talk(
        Oldest(Meanwhile(lambda: results.append(session.after_turn()))), context_limit=700
    )
    assert session.manual_gc().success
    assert results == [None]


@pytest.mark.usefixtures("_restless")
def test_two_threads_may_collect_at_once() -> None:
    session = new_session(on_instruction_budget_updated=lambda _: None)

    def work(first: int) -> None:
        for turn in range(first, first + 15):
            say(session, turn)
            result = session.manual_gc(preserve_recent_turns=2)
            assert result.success, result.error
            session.before_send()
            session.after_turn()

    in_threads(lambda: work(100), lambda: work(200))
    assert_in_step(session)
    while any(each.items_collected and not each.details.get("undone") for each in applied(session)):
        session.undo()
        assert_in_step(session)
    for first in (100, 200):
        expected = [f"{who}{turn}" for turn in range(first, first + 15) for who in "ua"]
        assert [each for each in ids(session) if each in expected] == expected


def applied(session: GCSession) -> list[GCResult]:
    return [each for each in session.get_gc_history() if each.success]


@pytest.mark.usefixtures("_restless")
def test_threads_may_append_save_pin_and_look_at_once() -> None:
    session = new_session(on_instruction_budget_updated=lambda _: None)
    say(session, 0)

    pinned: set[str] = set()

    def tell(first: int) -> None:
        for turn in range(first, first + 20):
            say(session, turn)
            with contextlib.suppress(GCError):  # collected already
                session.pin(f"u{turn}")
                pinned.add(f"u{turn}")

    def look() -> None:
        for _ in range(20):
            GCSession.restore(session.save(), plugin=Oldest(), **options())
            session.get_context_usage()
            session.manual_gc()

    in_threads(lambda: tell(100), lambda: tell(200), look)
    assert session.budget.pinned_message_ids == pinned != set()
    assert pinned <= set(ids(session))
    assert_in_step(session)


def test_append_during_a_plan_then_apply() -> None:
    session = talk(Oldest(Meanwhile(lambda: say(session, 5))))
    plan = session.plan_gc()
    say(session, 6)
    session.apply(plan)
    assert ids(session) == ["u0", "summary-a0", *("u4", "a4", "u5", "a5", "u6", "a6")]
    assert_in_step(session)
