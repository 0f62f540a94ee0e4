"""Sessions that several threads use at once: every request was checked, every change is whole."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from thread_runs import in_threads

from jaato_gc import (
    ContextFloorError,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCError,
    GCOutcome,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import Collection, hookimpl
from jaato_gc_testing import (
    COUNTER,
    OldestFirst,
    ScriptedStrategy,
    assert_in_step,
    message_ids,
    new_session,
    speak,
)

CONVERSATION, PLUGIN = InstructionSource.CONVERSATION, InstructionSource.PLUGIN
RECENT = GCConfig(preserve_recent_turns=1, preserve_recent_groups=1)


restless = pytest.mark.usefixtures("_restless")


class AfterCollections:
    """Runs a function after collections, like another thread that comes in between."""

    def __init__(self, work: Callable[[], object], times: int) -> None:
        self.work, self.times = work, times

    @hookimpl
    def jaato_gc_after_collect(self) -> None:
        if self.times:
            self.times -= 1
            in_threads(self.work)


def interrupted_session(work: Callable[[], object], times: int, **options: Any) -> GCSession:
    """Returns a session that collects before its next request, with something in between."""
    registry = PluginRegistry(load_installed=False)
    registry.register(AfterCollections(work, times), "in between")
    session = new_session(OldestFirst(), RECENT, registry=registry, context_limit=2_000, **options)
    while session.get_context_usage()["percent_used"] < 85:
        speak(session, len(session.history))
    session.append(Message.from_text(Role.USER, "Go on"))
    return session


def call(number: int) -> Message:
    return Message(Role.MODEL, [Part(function_call=FunctionCall(f"c{number}", "look"))])


def result(number: int, text: str = "seen") -> Message:
    return Message(Role.TOOL, [Part(function_response=ToolResult(f"c{number}", "look", text))])


def open_calls(request: list[Message]) -> set[str | None]:
    """Returns the calls without a result. Written here, so that core does not check itself."""
    called = {each.id for message in request for each in message.function_calls}
    answered = {each.call_id for message in request for each in message.function_responses}
    return called ^ answered


# --- requests ---


def test_a_call_that_comes_during_a_collection_is_not_sent_without_its_result() -> None:
    session = interrupted_session(lambda: session.append(call(1)), times=1)
    with pytest.raises(InvalidHistoryError, match="look"):
        session.before_send()
    session.append(result(1))
    assert open_calls(session.before_send()) == set()


def test_a_fault_that_comes_during_a_collection_is_repaired_if_the_host_wants_that() -> None:
    session = interrupted_session(lambda: session.append(result(1)), times=1, repair=True)
    assert open_calls(session.before_send()) == set()


LARGE = "something large " * 350


def test_a_request_fits_if_a_large_message_came_during_its_collection() -> None:
    def arrive() -> None:
        session.append(call(1))
        session.append(result(1, LARGE))

    session = interrupted_session(arrive, times=2)
    request = session.before_send()
    assert count_tokens(request, COUNTER) * (1 + COUNTER.tolerance) <= 2_000
    assert request == session.history
    assert_in_step(session)


def test_messages_that_come_faster_than_they_are_removed_end_in_an_error() -> None:
    numbers = itertools.count()

    def arrive() -> None:
        number = next(numbers)
        session.append(call(number))
        session.append(result(number, LARGE * 3))

    session = interrupted_session(arrive, times=1_000)
    with pytest.raises(ContextFloorError):
        session.before_send()
    assert next(numbers) < 30


def test_a_request_that_can_not_fit_is_refused_after_one_attempt() -> None:
    plugin = ScriptedStrategy(lambda _: None)
    session = new_session(plugin, GCConfig(), context_limit=2_000, on_overflow="raise")
    speak(session, 0, 1)
    session.append(Message.from_text(Role.MODEL, LARGE * 3))
    with pytest.raises(ContextFloorError):
        session.before_send()
    reasons = [each.trigger_reason for each in session.get_gc_history()]
    assert reasons.count(GCTriggerReason.CONTEXT_LIMIT) == 1


@restless
def test_every_request_is_valid_and_fits_while_another_thread_appends() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=2_000)
    session.append(Message.from_text(Role.USER, "Begin"))
    done = threading.Event()
    sizes: list[int] = []

    def work() -> None:
        try:
            for number in range(300):
                session.append(call(number))
                session.append(result(number, LARGE[: 40 * (number % 20)] or "nothing"))
        finally:
            done.set()

    def send() -> None:
        while not done.is_set():
            try:
                request = session.before_send()
            except InvalidHistoryError:  # a call waits for its result
                continue
            assert open_calls(request) == set()
            assert request[0].role is Role.USER
            sizes.append(count_tokens(request, COUNTER))

    in_threads(work, send, send)
    session.before_send()
    assert all(size * (1 + COUNTER.tolerance) <= 2_000 for size in sizes)
    assert_in_step(session)


def test_a_refused_request_is_smaller_even_if_another_thread_appended_meanwhile() -> None:
    def arrive() -> None:
        session.append(call(1))
        session.append(result(1, LARGE))

    session = interrupted_session(arrive, times=1)
    assert session.recover_from_refusal()


# --- the budget ---


@restless
def test_the_budget_can_be_read_while_another_thread_appends() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=2_000)
    done = threading.Event()

    def work() -> None:
        try:
            for number in range(60):
                speak(session, number, calls=3)
                session.before_send()
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            budget = session.budget
            snapshot = budget.snapshot()
            parts = sum(each["total_tokens"] for each in snapshot["entries"].values())
            assert parts + snapshot["unbooked_tokens"] == snapshot["total_tokens"]
            budget.get_conversation_snapshot()
            entry = budget.entries[CONVERSATION]
            assert repr(entry)
            assert len([child.total_tokens() for child in entry.children.values()]) >= 0
            assert sum(each.tokens for each in entry.walk()) >= 0
            entry.contains(entry.effective_gc_policy())
            session.get_context_usage()

    in_threads(work, read)
    assert_in_step(session)


@restless
def test_threads_may_add_to_the_budget_while_others_append() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=100_000)

    def add(first: int) -> None:
        for number in range(first, first + 100):
            session.budget.add_child(PLUGIN, f"tool-{number}", 3, GCPolicy.PARTIAL)

    def talk(first: int) -> None:
        for number in range(first, first + 50):
            speak(session, number)

    in_threads(lambda: add(0), lambda: add(100), lambda: talk(0), lambda: talk(50))
    assert session.budget.entries[PLUGIN].total_tokens() == 600
    assert_in_step(session)


def test_the_budget_of_a_session_stays_the_same_object() -> None:
    class Meanwhile(OldestFirst):
        def select(self, collection: Collection) -> None:
            before = collection.budget and collection.budget.snapshot()
            in_threads(lambda: session.append(Message.from_text(Role.USER, "Wait")))
            assert collection.budget is not None
            assert collection.budget.snapshot() == before
            super().select(collection)

    session = new_session(Meanwhile(), RECENT, context_limit=2_000)
    for number in range(5):
        speak(session, number)
    budget = session.budget
    assert session.manual_gc().outcome is GCOutcome.REACHED
    assert session.budget is budget
    before = session.budget.total_tokens()
    budget.add_child(PLUGIN, "tool", 30, GCPolicy.PARTIAL)
    assert session.get_context_usage()["total_tokens"] == before + 30
    assert_in_step(session)


@restless
def test_messages_may_be_pinned_while_collections_begin() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=100_000)
    for number in range(100):
        speak(session, number)

    def pin() -> None:
        for each in message_ids(session):
            session.pin(each)
        for each in message_ids(session):
            session.unpin(each)

    def plan() -> None:
        for _ in range(40):
            session.plan_gc()

    in_threads(pin, plan)
    assert session.budget.pinned_message_ids == set()


# --- strategies ---


@restless
def test_every_replaced_strategy_is_shut_down_once() -> None:
    shut_down: list[str] = []

    class Numbered(OldestFirst):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def shutdown(self) -> None:
            shut_down.append(str(self.number))

    session = new_session()

    def use(first: int) -> None:
        for number in range(first, first + 50):
            session.set_gc_plugin(Numbered(number))
            session.get_context_usage()
            session.after_turn()

    in_threads(lambda: use(0), lambda: use(50), lambda: use(100))
    session.close()
    assert Counter(shut_down) == Counter(map(str, range(150)))


@restless
def test_a_strategy_may_be_removed_while_another_thread_sends() -> None:
    session = new_session(context_limit=100_000)
    speak(session, 0)
    session.append(Message.from_text(Role.USER, "Go on"))
    done = threading.Event()

    def change() -> None:
        try:
            for _ in range(150):
                session.set_gc_plugin(OldestFirst(), RECENT)
                session.close()
        finally:
            done.set()

    def send() -> None:
        while not done.is_set():
            session.before_send()
            session.after_turn()
            assert session.paused_because is None
            assert session.strategy is None or session.strategy.name

    in_threads(change, send)


@restless
def test_the_threshold_is_told_once_in_a_turn_that_several_threads_report_on() -> None:
    told: list[float] = []
    session = new_session(OldestFirst(), RECENT, context_limit=100_000)
    session.on_gc_threshold = lambda percent, _: told.append(percent)
    speak(session, 0)
    for _ in range(20):
        session.before_send()
        in_threads(*[lambda: session.report_usage(99_000)] * 4)
        session.after_turn()
    assert len(told) == 20


@restless
def test_windows_may_change_while_another_thread_sends() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=2_000)
    for number in range(4):
        speak(session, number)
    session.append(Message.from_text(Role.USER, "Go on"))
    done = threading.Event()

    def change() -> None:
        try:
            for number in range(200):
                session.set_context_limit(2_000 + number % 2 * 50_000)
        finally:
            done.set()

    def send() -> None:
        while not done.is_set():
            session.before_send()
            with pytest.raises(GCConfigError):
                session.set_context_limit(0)

    in_threads(change, send)
    assert session.budget.context_limit == 52_000


@restless
def test_threads_may_collect_undo_pin_save_and_send_at_once() -> None:
    session = new_session(OldestFirst(), RECENT, context_limit=3_000)
    speak(session, 0)
    done = threading.Event()

    def talk(first: int) -> None:
        for number in range(first, first + 25):
            speak(session, number, calls=number % 2)

    def everything() -> None:
        changes: list[Callable[[], object]] = [
            session.undo,
            session.manual_gc,
            session.plan_gc,
            session.before_send,
            session.after_turn,
            session.save,
            session.recover_from_refusal,
            lambda: session.pin(message_ids(session)[-1]),
            lambda: session.unpin(message_ids(session)[-1]),
            lambda: session.remove(message_ids(session)[0]),
            lambda: session.apply(session.plan_gc()),
            lambda: GCSession.restore(session.save(), registry=session.registry, counter=COUNTER),
            lambda: session.child({"gc": None}),
        ]
        for change in itertools.cycle(changes):
            if done.is_set():
                return
            try:
                change()
            except GCError:
                continue  # not possible at this moment, and nothing changed

    def talk_all() -> None:
        try:
            in_threads(lambda: talk(100), lambda: talk(200))
        finally:
            done.set()

    in_threads(talk_all, everything, everything)
    assert_in_step(session)


# --- turns on an event loop ---


def started_threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Returns a list that every thread is added to when it starts."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def note(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    return started


async def answer_with_calls(request: list[Message]) -> AsyncIterator[str | Message]:
    """Answers a question with a call of a tool, and its result with a text."""
    if request[-1].is_tool_output:
        yield "done"
    else:
        call = FunctionCall(f"call {len(request)}", "look", {})
        yield Message(Role.MODEL, [Part(function_call=call)])


async def look(_call: FunctionCall) -> str:
    return "nothing new"


def test_a_turn_on_an_event_loop_starts_no_thread_if_nothing_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = new_session(OldestFirst(), provider=answer_with_calls, tools=look)

    async def turns(count: int) -> None:
        for number in range(count):
            await session.send_message_async(f"question {number}")

    started = started_threads(monkeypatch)
    asyncio.run(turns(3))
    assert started == []
    assert len(session.history) == 12

    session.set_context_limit(2 * session.budget.total_tokens())
    session.append(Message.from_text(Role.USER, "more " * 20 * session.budget.total_tokens()))
    asyncio.run(turns(1))
    assert session.collection_count > 0
    assert started, "a collection works in a thread, so that the loop goes on"
