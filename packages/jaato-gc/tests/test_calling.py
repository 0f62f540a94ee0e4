"""`jaato_gc.plugin.call`: calling a sync or async function, with or without a time limit."""

import asyncio
import threading
from typing import Any

import pytest

from jaato_gc import GCConfig, GCOutcome, GCSession
from jaato_gc.plugin import Collection, call
from jaato_gc_testing import ScriptedStrategy, new_session, speak


def add(one: int, other: int) -> int:
    return one + other


async def add_later(one: int, other: int) -> int:
    await asyncio.sleep(0)
    return one + other


class Adder:
    """A callable object that is not a coroutine function, but returns an awaitable."""

    def __call__(self, one: int, other: int) -> Any:
        return add_later(one, other)


@pytest.mark.parametrize("seconds", [None, 30.0])
@pytest.mark.parametrize("function", [add, add_later, Adder(), lambda one, other: one + other])
def test_call_returns_what_a_function_returns(function: Any, seconds: float | None) -> None:
    assert call(function, 1, 2, seconds=seconds) == 3


@pytest.mark.parametrize("seconds", [None, 30.0])
@pytest.mark.parametrize("function", [add, add_later])
def test_call_works_within_a_running_event_loop(function: Any, seconds: float | None) -> None:
    async def main() -> int:
        result: int = call(function, 1, 2, seconds=seconds)
        return result

    assert asyncio.run(main()) == 3


@pytest.mark.parametrize("seconds", [None, 30.0])
def test_call_raises_what_the_function_raises(seconds: float | None) -> None:
    def fail() -> None:
        raise ZeroDivisionError("no")

    async def fail_later() -> None:
        raise ZeroDivisionError("later")

    with pytest.raises(ZeroDivisionError, match="no"):
        call(fail, seconds=seconds)
    with pytest.raises(ZeroDivisionError, match="later"):
        call(fail_later, seconds=seconds)


def test_a_function_that_takes_too_long_is_left_behind() -> None:
    may_end = threading.Event()
    try:
        with pytest.raises(TimeoutError, match=r"wait took more than 0\.01 s"):
            call(may_end.wait, seconds=0.01)
    finally:
        may_end.set()


def test_an_async_function_that_takes_too_long_is_left_behind() -> None:
    async def forever() -> None:
        await asyncio.sleep(3600)

    with pytest.raises(TimeoutError, match=r"forever took more than 0\.01 s"):
        call(forever, seconds=0.01)


def test_a_timeout_of_the_function_itself_is_passed_on_unchanged() -> None:
    def fail() -> None:
        raise TimeoutError("the network")

    with pytest.raises(TimeoutError, match=r"^the network$"):
        call(fail, seconds=30.0)


# --- within a collection ---


def collecting(script: Any, **options: Any) -> GCSession:
    session = new_session(ScriptedStrategy(script), GCConfig(preserve_recent_turns=1), **options)
    speak(session, 0, 1, 2)
    return session


def test_a_strategy_whose_call_takes_too_long_fails_and_is_not_disabled() -> None:
    may_end = threading.Event()

    def select(collection: Collection) -> None:
        call(may_end.wait, seconds=0.01)
        collection.remove_oldest(collection.turns, "old")

    session = collecting(select, deadline_seconds=60.0)
    before = session.history
    try:
        result = session.manual_gc()
    finally:
        may_end.set()

    assert result.outcome is GCOutcome.FAILED
    assert "TimeoutError: wait took more than 0.01 s" in str(result.error)
    assert session.history == before
    assert session.paused_because is None


def test_an_async_function_of_a_strategy_runs_on_the_loop_of_the_host() -> None:
    loops: list[Any] = []

    async def look() -> None:
        loops.append(asyncio.get_running_loop())

    def select(collection: Collection) -> None:
        call(look, seconds=30.0)
        collection.remove_oldest(collection.turns, "old")

    async def main() -> None:
        session = collecting(select, provider=lambda _messages: "answer", context_limit=300)
        await session.send_message_async("go on")
        loops.append(asyncio.get_running_loop())

    asyncio.run(main())

    assert len(loops) >= 2
    assert len(set(map(id, loops))) == 1


def test_cancelling_a_turn_ends_the_call_of_a_strategy() -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def wait_forever() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    def select(collection: Collection) -> None:
        call(wait_forever)
        collection.remove_oldest(collection.turns, "old")

    async def main() -> GCSession:
        session = collecting(select, provider=lambda _messages: "answer", context_limit=300)
        before = session.history
        turn = asyncio.create_task(session.send_message_async("go on"))
        await asyncio.to_thread(began.wait)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await asyncio.to_thread(cancelled.wait)
        assert session.history[: len(before)] == before
        return session

    session = asyncio.run(main())

    assert cancelled.is_set()
    assert session.get_gc_history() == []
