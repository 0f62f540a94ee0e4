"""Cancelling a turn at any point leaves a session that can be used."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jaato_gc import (
    ContextLimitError,
    FunctionCall,
    GCConfig,
    GCOutcome,
    GCSession,
    Message,
    Part,
    Role,
    ToolResult,
)
from jaato_gc.plugin import Collection, Summarizer
from jaato_gc_testing import (
    OldestFirst,
    assert_in_step,
    message_ids,
    new_session,
    saved_state,
    speak,
)

PATIENCE = 20.0
"""Seconds after which a test fails that would wait for ever."""


class Summarizing(OldestFirst):
    """Asks a summarizer before it removes the oldest turns."""

    def __init__(self, function: Callable[..., Any], timeout_seconds: float | None = None) -> None:
        super().__init__()
        self.summarizer = Summarizer(function, timeout_seconds=timeout_seconds)

    def select(self, collection: Collection) -> None:
        self.summarizer.summarize([collection.history])
        super().select(collection)


class Hanging:
    """A summarizer that does not return before it is released."""

    def __init__(self) -> None:
        self.started, self.released = threading.Event(), threading.Event()
        self.cancelled = threading.Event()

    def plain(self, _text: str) -> str:
        self.started.set()
        self.released.wait(PATIENCE)
        return "too late"

    async def on_a_loop(self, _text: str) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "never"


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    summarizer = Hanging()
    yield summarizer
    summarizer.released.set()


def full_session(plugin: OldestFirst, provider: Any = lambda _: "ok", **options: Any) -> GCSession:
    """Returns a session that collects before its next request."""
    config = GCConfig(preserve_recent_turns=1)
    session = new_session(plugin, config, provider=provider, context_limit=2_000, **options)
    while session.get_context_usage()["percent_used"] < 85:
        speak(session, len(session.history))
    return session


async def heard(event: threading.Event) -> None:
    """Waits for another thread."""
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def cancelled(turn: Coroutine[Any, Any, Message], at: threading.Event) -> None:
    """Starts a turn, and cancels it when something has happened."""
    task = asyncio.create_task(turn)
    await heard(at)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def answered(session: GCSession, prompt: str | None = None) -> str:
    return (await asyncio.wait_for(session.send_message_async(prompt), PATIENCE)).text


LIMITS = [
    pytest.param({}, None, id="no time limit"),
    pytest.param({"deadline_seconds": PATIENCE}, None, id="deadline of the strategy"),
    pytest.param({}, PATIENCE, id="time limit of the summarizer"),
    pytest.param({"deadline_seconds": PATIENCE}, PATIENCE, id="both limits"),
]


@pytest.mark.parametrize(("options", "timeout"), LIMITS)
@pytest.mark.parametrize("kind", ["plain", "on_a_loop"])
def test_a_turn_that_is_cancelled_during_a_summary_leaves_the_session_usable(
    hanging: Hanging, kind: str, options: dict[str, Any], timeout: float | None
) -> None:
    async def run() -> None:
        session = full_session(Summarizing(getattr(hanging, kind), timeout), **options)
        session.append(Message.from_text(Role.USER, "Hi", message_id="hi"))
        before = saved_state(session)
        await cancelled(session.send_message_async(None), at=hanging.started)
        if kind == "on_a_loop":
            await heard(hanging.cancelled)
        assert saved_state(session) == before
        session.set_gc_plugin(OldestFirst(), GCConfig(preserve_recent_turns=1))
        result = await asyncio.wait_for(asyncio.to_thread(session.manual_gc), PATIENCE)
        assert result.outcome is GCOutcome.REACHED
        assert await answered(session) == "ok"
        assert message_ids(session)[-2] == "hi"
        assert_in_step(session)

    asyncio.run(run())


def test_a_summary_that_comes_after_the_cancellation_changes_nothing(hanging: Hanging) -> None:
    finished = threading.Event()

    class Late(Summarizing):
        def select(self, collection: Collection) -> None:
            try:
                super().select(collection)
            finally:
                finished.set()

    async def run() -> None:
        session = full_session(Late(hanging.plain))
        before = message_ids(session)
        await cancelled(session.send_message_async("Hi"), at=hanging.started)
        hanging.released.set()
        await heard(finished)
        assert message_ids(session)[:-1] == before
        assert session.get_gc_history() == []

    asyncio.run(run())


def test_the_strategy_of_a_cancelled_turn_collects_in_the_next_one(hanging: Hanging) -> None:
    calls: list[str] = []

    async def summarize(text: str) -> str:
        calls.append(text)
        return await hanging.on_a_loop(text) if len(calls) == 1 else "short"

    async def run() -> None:
        session = full_session(Summarizing(summarize))
        await cancelled(session.send_message_async("Hi"), at=hanging.started)
        await heard(hanging.cancelled)
        assert session.paused_because is None
        assert await answered(session) == "ok"
        assert [each.outcome for each in session.get_gc_history()] == [GCOutcome.REACHED]

    asyncio.run(run())


def test_a_turn_that_is_cancelled_after_its_answer_keeps_the_answer(hanging: Hanging) -> None:
    async def run() -> None:
        session = new_session(
            Summarizing(hanging.on_a_loop),
            GCConfig(preserve_recent_turns=0, check_before_send=False),
            provider=lambda _: "the answer",
            context_limit=2_000,
        )
        while session.get_context_usage()["percent_used"] < 85:
            speak(session, len(session.history))
        before = message_ids(session)
        await cancelled(session.send_message_async("Hi"), at=hanging.started)
        assert message_ids(session)[:-2] == before
        assert session.history[-1].text == "the answer"
        session.set_gc_plugin(OldestFirst(), GCConfig(preserve_recent_turns=0))
        result = await asyncio.wait_for(asyncio.to_thread(session.manual_gc), PATIENCE)
        assert result.outcome is GCOutcome.REACHED

    asyncio.run(run())


def test_a_turn_that_is_cancelled_after_a_refusal_can_be_continued(hanging: Hanging) -> None:
    answers: list[Any] = [ContextLimitError("too long"), "ok"]

    def provider(_request: Sequence[Message]) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async def run() -> None:
        session = new_session(
            Summarizing(hanging.on_a_loop),
            GCConfig(preserve_recent_turns=1),
            provider=provider,
            context_limit=10_000,
        )
        for number in range(5):
            speak(session, number)
        before = message_ids(session)
        await cancelled(session.send_message_async("Hi"), at=hanging.started)
        assert message_ids(session)[:-1] == before
        assert await answered(session) == "ok"

    asyncio.run(run())


# --- tools ---

CALLS = [FunctionCall(f"c{number}", "look", {"at": number}) for number in range(3)]


def calling_once() -> Callable[[list[Message]], Any]:
    """Returns a provider that answers with three calls, and then with a text."""
    answers: list[Any] = [
        Message(Role.MODEL, [Part(function_call=call) for call in CALLS]),
        "Done.",
    ]
    return lambda _request: answers.pop(0)


def results_of(session: GCSession) -> list[ToolResult]:
    return session.history[-1].function_responses


def test_a_turn_that_is_cancelled_during_a_tool_call_can_be_continued() -> None:
    started = threading.Event()

    async def tools(call: FunctionCall) -> str:
        if call.args["at"] == 1:
            started.set()
            await asyncio.Event().wait()
        return "seen"

    async def run() -> None:
        session = new_session(provider=calling_once(), tools=tools)
        await cancelled(session.send_message_async("Look"), at=started)
        first, *others = results_of(session)
        assert first == ToolResult("c0", "look", "seen")
        assert [each.call_id for each in others] == ["c1", "c2"]
        assert all(each.is_error and "interrupted" in str(each.result) for each in others)
        assert await answered(session) == "Done."

    asyncio.run(run())


def test_a_turn_that_is_interrupted_during_a_tool_call_can_be_continued() -> None:
    def tools(call: FunctionCall) -> str:
        if call.args["at"] == 1:
            raise KeyboardInterrupt
        return "seen"

    session = new_session(provider=calling_once(), tools=tools)
    with pytest.raises(KeyboardInterrupt):
        session.send_message("Look")
    assert [each.is_error for each in results_of(session)] == [False, True, True]
    assert session.send_message("Go on").text == "Done."


# --- waiting for an event loop ---


def test_a_summarizer_may_use_the_threads_of_the_hosts_loop() -> None:
    async def summarize(_text: str) -> str:
        return await asyncio.to_thread(str, "short")  # as resolving a host name does

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        sessions = [full_session(Summarizing(summarize)) for _ in range(3)]
        turns = asyncio.gather(*(session.send_message_async("Hi") for session in sessions))
        await asyncio.wait_for(turns, PATIENCE)
        assert all(session.get_gc_history()[0].success for session in sessions)

    asyncio.run(run())


def test_an_async_summarizer_is_cancelled_if_the_strategy_exceeds_its_deadline(
    hanging: Hanging,
) -> None:
    async def run() -> None:
        session = full_session(Summarizing(hanging.on_a_loop), deadline_seconds=0.02)
        assert await answered(session, "Hi") == "ok"
        await heard(hanging.cancelled)
        assert "0.02 s" in str(session.paused_because)

    asyncio.run(run())
