"""A turn with a provider: whole or streamed, sync or async, with tools, refusals and errors."""

import asyncio
import json
import logging
import math
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from jaato_gc import (
    Confidence,
    ContextFloorError,
    ContextLimitError,
    ContextUsage,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCError,
    GCOutcome,
    GCPlugin,
    GCPluginError,
    GCPolicy,
    GCSession,
    GCTriggerReason,
    InvalidHistoryError,
    Message,
    Part,
    PluginRegistry,
    ProviderError,
    Role,
    ToolResult,
    UsageReport,
    check_history,
    count_tokens,
    is_context_refusal,
)
from jaato_gc.plugin import (
    Collection,
    Provider,
    StrategyInfo,
    StrategySettings,
    hookimpl,
)
from jaato_gc_testing import (
    COUNTER,
    DummyModel,
    NoGCPlugin,
    OldestFirst,
    ScriptedPlugin,
    assert_in_step,
    new_session,
)


class WordCounter:
    """Counts words, so that a reader can follow the figures."""

    name = "words"
    confidence = Confidence.EXACT

    def __init__(self, tolerance: float = 0.0) -> None:
        self.tolerance = tolerance

    def count_text(self, text: str) -> int:
        return len(text.split())


class Script:
    """A provider that returns the given replies and records the requests."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[list[Message]] = []

    def __call__(self, request: list[Message]) -> Any:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def session_with(
    provider: Provider | None = None,
    config: GCConfig | None = None,
    *,
    plugin: GCPlugin | None = None,
    **options: Any,
) -> GCSession:
    return new_session(plugin or OldestFirst(), config, provider=provider, **options)


def user(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def model(text: str) -> Message:
    return Message.from_text(Role.MODEL, text)


def calls(*calls: FunctionCall) -> Message:
    return Message(Role.MODEL, [Part(function_call=call) for call in calls])


def results(*results: ToolResult) -> Message:
    return Message(Role.TOOL, [Part(function_response=result) for result in results])


LOOK = FunctionCall("c1", "look", {"at": "a"})
LISTEN = FunctionCall("c2", "listen", {"to": "b"})


def fill(session: GCSession, turns: int, words: int = 90) -> None:
    """Appends turns of about a hundred tokens each, as counted in words."""
    for _ in range(turns):
        session.append(user("word " * 2))
        session.append(model("word " * words))


def roles(messages: Sequence[Message]) -> list[str]:
    return [message.role.value for message in messages]


# --- what a provider may return ---


def stream(*chunks: Any) -> Iterator[Any]:
    yield from chunks


WHOLE = [
    pytest.param("Hello you", id="str"),
    pytest.param(model("Hello you"), id="message"),
    pytest.param(("Hello you", UsageReport(20, 3)), id="str and report"),
    pytest.param((model("Hello you"), UsageReport(20, 3)), id="message and report"),
]


@pytest.mark.parametrize("reply", WHOLE)
def test_a_provider_may_return_the_whole_answer(reply: Any) -> None:
    provider, shown = Script(reply), list[str]()
    session = session_with(provider)
    answer = session.send_message("Hi", shown.append)
    assert answer.role is Role.MODEL
    assert answer.text == "Hello you"
    assert shown == ["Hello you"]
    assert [message.text for message in session.history] == ["Hi", "Hello you"]
    assert session.history[-1] is answer
    assert_in_step(session)


def test_a_provider_may_stream() -> None:
    thought = Part(thought="hm", extra={"signature": "s"})
    shown: list[str] = []
    session = session_with(
        lambda _: stream(
            thought, "Hel", "lo", UsageReport(10), Part(text=" there"), " you", UsageReport(10, 4)
        )
    )
    answer = session.send_message("Hi", shown.append)
    assert shown == ["Hel", "lo", " there", " you"]
    assert [part.text for part in answer.parts] == [None, "Hello", " there", " you"]
    assert answer.parts[0] == thought
    assert_in_step(session)


def test_a_stream_may_end_with_the_finished_message() -> None:
    finished, shown = model("Hello"), list[str]()
    session = session_with(lambda _: stream("Hel", "lo", finished, UsageReport(10, 2)))
    assert session.send_message("Hi", shown.append) is finished
    assert shown == ["Hel", "lo"]


def test_parts_of_a_stream_are_not_changed() -> None:
    part = Part(text="Hello")
    session = session_with(lambda _: stream(part, " you"))
    assert session.send_message("Hi").text == "Hello you"
    assert part.text == "Hello"


def test_any_message_can_be_sent() -> None:
    provider = Script("ok")
    session = session_with(provider)
    said = Message(Role.USER, [Part(text="Hi")], policy=GCPolicy.LOCKED)
    session.send_message(said)
    assert provider.requests[0] == [said]


def test_later_changes_do_not_show_in_a_request() -> None:
    session = session_with(context_limit=100_000)
    for number in range(6):
        session.append(user(f"request {number}"))
        session.append(model(f"answer {number} " * 50))
    session.append(user("now"))
    request = session.before_send()
    sent = session.history

    session.append(model("answer"))
    assert session.manual_gc(target_percent=0).items_collected > 0
    assert request == sent
    session.undo()
    session.append(user("more"))

    assert request == sent
    assert len(sent) == 13


def test_a_host_may_change_the_list_of_a_request() -> None:
    session = session_with()
    session.append(user("Hi"))
    session.before_send().clear()
    assert len(session.history) == 1


def test_the_request_is_the_providers_own_list() -> None:
    def provider(request: list[Message]) -> str:
        request.clear()
        return "ok"

    session = session_with(provider)
    session.send_message("Hi")
    assert len(session.history) == 2


def test_an_answer_under_a_taken_id_is_the_one_that_was_booked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = session_with(lambda _: Message.from_text(Role.MODEL, "ok", message_id="same"))
    first = session.send_message("Hi")
    second = session.send_message("Hi again")
    assert first.message_id == "same"
    assert second.message_id != "same"
    assert session.history[-1] is second
    assert "'same' is taken" in caplog.text


class SdkResponse(BaseModel):
    """A response as the SDKs of providers return it. Iterating over it yields pairs."""

    role: str = "assistant"
    content: str = "Done."


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param("", "empty answer", id="empty text"),
        pytest.param(" \n", "empty answer", id="blank text"),
        pytest.param(model(""), "empty answer", id="empty message"),
        pytest.param(Message(Role.MODEL, []), "empty answer", id="no parts"),
        pytest.param((), "empty answer", id="empty stream"),
        pytest.param((UsageReport(5, 0),), "empty answer", id="report alone"),
        pytest.param(None, "gave None", id="None"),
        pytest.param(17, "gave 17", id="number"),
        pytest.param([{"text": "x"}], "gave {'text'.*ProviderSession", id="foreign chunks"),
        pytest.param({"role": "assistant"}, "gave {'role'.*ProviderSession", id="dict"),
        pytest.param(MappingProxyType({"role": "assistant"}), "ProviderSession", id="mapping"),
        pytest.param((SdkResponse(), UsageReport(5)), "ProviderSession", id="response and report"),
        pytest.param(SdkResponse(), "gave SdkResponse.*ProviderSession", id="response of an SDK"),
        pytest.param(b"Done.", "gave b'Done", id="bytes"),
        pytest.param(user("Hi"), "role user", id="wrong role"),
    ],
)
def test_an_invalid_answer_is_an_error_and_the_turn_can_be_resumed(reply: Any, words: str) -> None:
    provider = Script(reply, "better")
    session = session_with(provider)
    with pytest.raises(GCError, match=words):
        session.send_message("Hi")
    assert [message.text for message in session.history] == ["Hi"]
    assert session.send_message(None).text == "better"
    assert provider.requests[0] == provider.requests[1]
    assert_in_step(session)


@pytest.mark.parametrize("reply", [{"role": "assistant", "content": "Done."}, SdkResponse()])
def test_a_response_of_an_sdk_is_no_answer_of_an_async_provider_either(reply: Any) -> None:
    async def late(_messages: list[Message]) -> Any:
        return reply

    async def late_stream(_messages: list[Message]) -> Any:
        yield reply

    for provider in (late, late_stream):
        session = session_with(provider)
        with pytest.raises(ProviderError, match="ProviderSession"):
            asyncio.run(session.send_message_async("Hi"))
        assert [message.text for message in session.history] == ["Hi"]


def test_without_a_provider_nothing_is_appended() -> None:
    session = session_with()
    with pytest.raises(GCError, match="no provider"):
        session.send_message("Hi")
    assert session.history == []


# --- tools ---


def test_tool_calls_are_run_until_there_are_none() -> None:
    provider = Script(
        Message(Role.MODEL, [Part(text="Let me see."), *calls(LOOK, LISTEN).parts]),
        stream(Part(function_call=FunctionCall("c1", "look", {"at": "z"}))),
        "Done.",
    )
    ran: list[FunctionCall] = []

    def tools(call: FunctionCall) -> Any:
        ran.append(call)
        return {"seen": call.args}

    session = session_with(provider, tools=tools)
    assert session.send_message("Look around").text == "Done."
    assert [call.name for call in ran] == ["look", "listen", "look"]
    assert roles(session.history) == ["user", "model", "tool", "model", "tool", "model"]
    # Parallel calls are answered in one message, in their order.
    parallel = session.history[2].function_responses
    assert parallel == [
        ToolResult("c1", "look", {"seen": {"at": "a"}}),
        ToolResult("c2", "listen", {"seen": {"to": "b"}}),
    ]
    assert [len(request) for request in provider.requests] == [1, 3, 5]
    assert check_history(session.history) == []
    assert session.get_context_usage()["turns"] == 1
    assert_in_step(session)


def test_a_tool_may_return_a_result_of_its_own() -> None:
    own = ToolResult("c1", "look", "nothing there", is_error=True)
    session = session_with(Script(calls(LOOK), "ok"), tools=lambda _: own)
    session.send_message("Look")
    assert session.history[2].function_responses == [own]


@pytest.mark.parametrize("error", [ValueError("no such file"), StopIteration("no such file")])
def test_a_tool_that_raises_gives_an_error_result(error: Exception) -> None:
    def tools(call: FunctionCall) -> str:
        if call == LOOK:
            raise error
        return "heard"

    session = session_with(Script(calls(LOOK, LISTEN), "ok"), tools=tools)
    assert session.send_message("Look").text == "ok"
    failed, heard = session.history[2].function_responses
    assert failed.is_error
    assert failed.result == f"{type(error).__name__}: no such file"
    assert heard == ToolResult("c2", "listen", "heard")


def test_without_tools_calls_are_left_to_the_host() -> None:
    provider = Script(calls(LOOK), "Done.")
    session = session_with(provider)
    answer = session.send_message("Look")
    assert answer.function_calls == [LOOK]
    with pytest.raises(InvalidHistoryError, match=r"append the results of its open calls.*look"):
        session.send_message(None)
    assert len(provider.requests) == 1
    session.append(results(ToolResult("c1", "look", "nothing")))
    assert session.send_message(None).text == "Done."
    assert roles(provider.requests[1]) == ["user", "model", "tool"]
    assert_in_step(session)


# --- errors of a provider ---


def test_errors_of_a_provider_reach_the_host_and_no_message_is_lost() -> None:
    class SDKError(Exception):
        pass

    provider = Script(calls(LOOK), SDKError("overloaded"), "Done.")
    session = session_with(provider, tools=lambda _: "nothing")
    with pytest.raises(SDKError, match="overloaded"):
        session.send_message("Look")
    assert roles(session.history) == ["user", "model", "tool"]
    assert session.send_message(None).text == "Done."
    assert provider.requests[1] == provider.requests[2]
    assert session.get_gc_history() == []


def test_a_broken_stream_leaves_no_partial_answer() -> None:
    def provider(_request: list[Message]) -> Iterator[str]:
        yield "Well, "
        raise ConnectionResetError("gone")

    shown: list[str] = []
    session = session_with(provider)
    with pytest.raises(ConnectionResetError):
        session.send_message("Hi", shown.append)
    assert shown == ["Well, "]
    assert roles(session.history) == ["user"]


async def late(_request: list[Message]) -> str:
    return "too late"


async def late_stream(_request: list[Message]) -> AsyncIterator[str]:
    yield "too late"


@pytest.mark.parametrize("provider", [late, late_stream])
def test_an_async_provider_needs_send_message_async(provider: Provider) -> None:
    session = session_with(provider)
    with pytest.raises(GCError, match="send_message_async"):
        session.send_message("Hi")  # pytest turns "never awaited" into an error
    assert asyncio.run(session.send_message_async(None)).text == "too late"


def test_an_async_tool_needs_send_message_async() -> None:
    async def tools(_call: FunctionCall) -> str:
        return "late"

    session = session_with(Script(calls(LOOK), "Done."), tools=tools)
    with pytest.raises(GCError, match=r"a tool is asynchronous: .*send_message_async"):
        session.send_message("Hi")
    assert session.send_message(None).text == "Done."


# --- on an event loop ---


async def _whole(_request: list[Message]) -> Any:
    await asyncio.sleep(0)
    return "Hello you", UsageReport(20, 3)


async def _streamed(_request: list[Message]) -> AsyncIterator[Any]:
    for chunk in ("Hello", UsageReport(20), " you"):
        await asyncio.sleep(0)
        yield chunk


async def _awaited_stream(_request: list[Message]) -> AsyncIterator[Any]:
    return _streamed(_request)


class _Iterable:
    """An async iterable that is not an iterator, like the streams of some SDKs."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return _streamed([])


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(_whole, id="coroutine"),
        pytest.param(_streamed, id="async generator"),
        pytest.param(_awaited_stream, id="coroutine of async generator"),
        pytest.param(lambda _: _Iterable(), id="async iterable"),
        pytest.param(lambda _: ("Hello you", UsageReport(20, 3)), id="plain"),
        pytest.param(lambda _: stream("Hello", " you", UsageReport(20)), id="generator"),
    ],
)
def test_an_event_loop_takes_any_provider(provider: Provider) -> None:
    shown: list[str] = []
    session = session_with(provider)
    answer = asyncio.run(session.send_message_async("Hi", shown.append))
    assert answer.text == "".join(shown) == "Hello you"
    assert roles(session.history) == ["user", "model"]
    assert session.budget.unbooked_tokens > 0
    assert_in_step(session)


def test_async_tools_are_awaited() -> None:
    async def tools(call: FunctionCall) -> str:
        await asyncio.sleep(0)
        if call == LISTEN:
            raise ValueError("deaf")
        return "seen"

    async def answer(_request: list[Message]) -> Any:
        return provider(_request)

    provider = Script(calls(LOOK, LISTEN), "Done.")
    session = session_with(answer, tools=tools)
    assert asyncio.run(session.send_message_async("Look")).text == "Done."
    assert session.history[2].function_responses == [
        ToolResult("c1", "look", "seen"),
        ToolResult("c2", "listen", "ValueError: deaf", is_error=True),
    ]


def test_plain_tools_work_on_an_event_loop() -> None:
    session = session_with(Script(calls(LOOK), "Done."), tools=lambda call: call.name)
    assert asyncio.run(session.send_message_async("Look")).text == "Done."


def test_an_async_refusal_is_recovered_from() -> None:
    provider = Script(ContextLimitError("no"), "ok")

    async def answer(request: list[Message]) -> Any:
        return provider(request)

    session = session_with(answer, GCConfig(preserve_recent_turns=1), counter=WordCounter())
    fill(session, 5)
    assert asyncio.run(session.send_message_async("Hi")).text == "ok"
    assert len(provider.requests[1]) < len(provider.requests[0])


def test_a_cancelled_turn_can_be_resumed() -> None:
    asked = 0

    async def provider(_request: list[Message]) -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return "at last"

    async def run() -> None:
        session = session_with(provider)
        turn = asyncio.create_task(session.send_message_async("Hi"))
        while not asked:
            await asyncio.sleep(0.001)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert roles(session.history) == ["user"]
        assert (await session.send_message_async(None)).text == "at last"

    asyncio.run(run())


class NeedsTheLoop(OldestFirst):
    """A strategy that waits for a coroutine on the host's loop, as a summarizer does."""

    name = "gc_needs_the_loop"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop = loop
        self.threads: list[int] = []
        self.heard: list[str] = []

    def select(self, collection: Collection) -> None:
        self.threads.append(threading.get_ident())
        summary = asyncio.run_coroutine_threadsafe(self.summarize(), self.loop)
        self.heard.append(summary.result(timeout=20))
        super().select(collection)

    async def summarize(self) -> str:
        self.threads.append(threading.get_ident())
        await asyncio.sleep(0.02)
        return "summary"


@pytest.mark.parametrize("deadline", [None, 20.0])
def test_an_async_hosts_collection_runs_in_a_worker(deadline: float | None) -> None:
    async def run() -> None:
        plugin = NeedsTheLoop(asyncio.get_running_loop())
        session = session_with(
            lambda _: "ok",
            GCConfig(preserve_recent_turns=1),
            plugin=plugin,
            counter=WordCounter(),
            context_limit=1_000,
            deadline_seconds=deadline,
        )
        fill(session, 9)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await session.send_message_async("Hi")
        ticking.cancel()
        collecting, on_loop = plugin.threads
        assert on_loop == threading.get_ident()
        assert collecting != on_loop
        assert plugin.heard == ["summary"]
        assert ticks > 1  # the loop went on meanwhile
        assert session.get_gc_history()[0].success

    asyncio.run(run())


# --- who listens ---


def test_an_error_in_on_output_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> None:
        raise RuntimeError(f"can't show {text}")

    session = session_with(lambda _: stream("a", "b"))
    with caplog.at_level(logging.ERROR, "jaato_gc"):
        assert session.send_message("Hi", broken).text == "ab"
    assert len(caplog.records) == 2
    assert "can't show b" in caplog.text


def say_much(session: GCSession, words: int = 700) -> GCSession:
    """Fills most of a window of 1,000. What is reported beyond the count would be fixed content."""
    session.append(Message.from_text(Role.USER, "Hi"))
    session.append(Message.from_text(Role.MODEL, "word " * words))
    return session


def test_on_gc_threshold_is_told_once_per_turn() -> None:
    reports = (UsageReport(799), UsageReport(800), UsageReport(850, 20))
    provider = Script(stream(*reports, "a"), stream("b"), stream(UsageReport(700, 150), "c"))
    told: list[tuple[float, float]] = []
    config = GCConfig(auto_trigger=False)
    session = say_much(session_with(provider, config, context_limit=1_000, counter=WordCounter()))

    def note(percent: float, threshold: float) -> None:
        told.append((percent, threshold))

    session.send_message("Hi", on_gc_threshold=note)
    assert told == [(80.0, 80.0)]
    session.budget.unbooked_tokens = 0
    session.send_message("Hi", on_gc_threshold=note)
    assert len(told) == 1
    session.send_message("Hi", on_gc_threshold=note)
    assert told[1:] == [(85.0, 80.0)]  # with what the answer has so far


def test_on_gc_threshold_is_for_one_turn_and_the_sessions_own_for_the_others() -> None:
    told: list[str] = []
    session = session_with(
        lambda _: ("ok", UsageReport(900)),
        GCConfig(auto_trigger=False),
        context_limit=1_000,
        counter=WordCounter(),
    )
    say_much(session)
    session.send_message("Hi", on_gc_threshold=lambda *_: told.append("given"))
    session.send_message("Hi")
    session.on_gc_threshold = lambda *_: told.append("own")
    session.send_message("Hi")
    session.send_message("Hi", on_gc_threshold=lambda *_: told.append("given"))
    assert told == ["given", "own", "given"]


def test_on_gc_threshold_is_told_once_in_a_turn_with_tools() -> None:
    told: list[float] = []
    provider = Script((calls(LOOK), UsageReport(810)), ("ok", UsageReport(820)))
    session = session_with(
        provider,
        GCConfig(auto_trigger=False),
        tools=lambda _: "seen",
        context_limit=1_000,
        counter=WordCounter(),
    )
    say_much(session)
    session.send_message("Hi", on_gc_threshold=lambda percent, _: told.append(percent))
    assert told == [81.0]


def test_on_gc_threshold_is_told_before_the_collection_that_counted_tokens_make_due() -> None:
    told: list[tuple[float, float, int]] = []
    session = session_with(
        lambda _: "ok", GCConfig(preserve_recent_turns=1), context_limit=200, counter=WordCounter()
    )

    def note(percent: float, threshold: float) -> None:
        told.append((percent, threshold, session.collection_count))

    for _ in range(60):
        session.send_message("Hi", on_gc_threshold=note)

    results = session.get_gc_history()
    assert results
    # The figures are those of the collection, and it has not run yet.
    expected = [(result.tokens_before / 2, 80.0, n) for n, result in enumerate(results)]
    assert told == expected


@pytest.mark.parametrize("config", [{"auto_trigger": False}, {"check_before_send": False}, {}])
def test_on_gc_threshold_is_told_once_in_each_turn_above_it(config: dict[str, Any]) -> None:
    told: list[float] = []
    session = session_with(
        None,
        GCConfig(preserve_recent_turns=1, **config),
        context_limit=1_000,
        counter=WordCounter(),
    )
    session.on_gc_threshold = lambda percent, _: told.append(percent)
    fill(session, 7)
    for turn in range(1, 4):
        session.append(user("word " * 900))
        for request in range(2):
            session.before_send()
            session.report_usage(900 + request)
        session.append(model("ok"))
        session.after_turn()
        assert len(told) == turn


def test_a_threshold_that_the_answer_crosses_is_told_at_the_end_of_the_turn() -> None:
    told: list[tuple[float, int]] = []
    session = session_with(lambda _: "word " * 900, context_limit=1_000, counter=WordCounter())

    session.send_message(
        "Hi", on_gc_threshold=lambda percent, _: told.append((percent, session.collection_count))
    )

    [(percent, collections)] = told
    assert percent == session.get_gc_history()[0].tokens_before / 10
    assert collections == 0


def test_an_async_host_is_told_of_a_crossed_threshold_on_its_own_thread() -> None:
    told: list[int] = []
    session = session_with(
        lambda _: "ok", GCConfig(preserve_recent_turns=1), context_limit=200, counter=WordCounter()
    )

    async def talk() -> None:
        for _ in range(60):
            await session.send_message_async(
                "Hi", on_gc_threshold=lambda *_: told.append(threading.get_ident())
            )

    asyncio.run(talk())

    assert len(told) == session.collection_count > 0
    assert set(told) == {threading.get_ident()}


def test_on_gc_threshold_is_told_in_the_turn_after_one_that_failed() -> None:
    def provider(_request: list[Message]) -> Iterator[Any]:
        yield UsageReport(900)
        raise ConnectionError

    told: list[float] = []
    session = session_with(
        provider, GCConfig(auto_trigger=False), context_limit=1_000, counter=WordCounter()
    )
    say_much(session)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            session.send_message("Hi", on_gc_threshold=lambda percent, _: told.append(percent))
    assert told == [90.0, 90.5]  # as reported, then as counted with the second message


def test_in_continuous_mode_the_target_is_the_threshold() -> None:
    told: list[tuple[float, float]] = []
    provider = Script(("a", UsageReport(600)), ("b", UsageReport(601)))
    session = session_with(
        provider,
        GCConfig(pressure_percent=0, target_percent=60.0),
        context_limit=1_000,
        counter=WordCounter(),
    )
    say_much(session, 500)
    for _ in range(2):
        session.send_message("Hi", on_gc_threshold=lambda *figures: told.append(figures))
    assert [line for _, line in told] == [60.0, 60.0]  # once in each turn
    assert min(percent for percent, _ in told) > 60.0
    assert session.get_gc_history() == []  # so little above it is not worth a collection


def test_an_error_in_on_gc_threshold_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_percent: float, _threshold: float) -> None:
        raise RuntimeError("no display")

    provider = Script(("ok", UsageReport(900)))
    session = say_much(session_with(provider, context_limit=1_000, counter=WordCounter()))
    assert session.send_message("Hi", on_gc_threshold=broken).text == "ok"
    assert "no display" in caplog.text


def test_budget_updates_follow_every_change() -> None:
    totals: list[int] = []
    session = session_with(
        lambda _: ("ok", UsageReport(107, 1)),
        counter=WordCounter(),
        context_limit=1_000,
        on_instruction_budget_updated=lambda snapshot: totals.append(snapshot["total_tokens"]),
    )
    session.send_message("one two three")
    assert totals == [7, 107, 112]  # said, reported, answered
    session.set_context_limit(2_000)
    assert totals == [7, 107, 112, 112]


# --- collecting around a turn ---


def test_a_turn_that_crosses_the_threshold_is_collected_after() -> None:
    provider = Script(("ok", UsageReport(900, 2)))
    session = session_with(
        provider, GCConfig(preserve_recent_turns=1), context_limit=1_000, counter=WordCounter()
    )
    fill(session, 7)
    session.send_message("Hi")
    assert len(provider.requests[0]) == 15  # nothing was due before
    [result] = session.get_gc_history()
    assert result.trigger_reason is GCTriggerReason.THRESHOLD
    assert result.outcome is GCOutcome.REACHED
    assert session.budget.total_tokens() <= 600
    assert session.history[-1].text == "ok"


def test_reported_output_tokens_count_at_once() -> None:
    # Half of the answer was thinking, which the provider bills and does not give back.
    provider = Script(("ok", UsageReport(700, 150)))
    session = session_with(
        provider, GCConfig(preserve_recent_turns=1), context_limit=1_000, counter=WordCounter()
    )
    fill(session, 6)
    session.send_message("Hi")
    assert [each.trigger_reason for each in session.get_gc_history()] == [GCTriggerReason.THRESHOLD]


class Unnamed(OldestFirst):
    """Wants to collect, and gives no reason."""

    name = "gc_unnamed"

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        return super().should_collect(context_usage, config)[0], None


def test_before_a_request_an_unnamed_reason_is_pre_message() -> None:
    session = session_with(
        lambda _: "ok",
        GCConfig(preserve_recent_turns=1),
        plugin=Unnamed(),
        context_limit=1_000,
        counter=WordCounter(),
    )
    fill(session, 8)
    session.send_message("Hi")
    assert [each.trigger_reason for each in session.get_gc_history()] == [
        GCTriggerReason.PRE_MESSAGE
    ]


def test_the_check_before_a_request_can_be_left_out_but_not_the_windows() -> None:
    provider = Script("one", "two")
    session = session_with(
        provider,
        GCConfig(check_before_send=False, preserve_recent_turns=1, threshold_percent=80.0),
        context_limit=1_000,
        counter=WordCounter(),
    )
    fill(session, 8)
    session.send_message("Hi")
    assert len(provider.requests[0]) == 17  # above the threshold, and it fits
    fill(session, 8)
    session.send_message("Hi")
    assert count_tokens(provider.requests[1], WordCounter()) <= 600
    assert session.get_gc_history()[-1].trigger_reason is GCTriggerReason.CONTEXT_LIMIT


def test_without_auto_trigger_only_the_window_collects() -> None:
    provider = Script("one", "two")
    session = session_with(
        provider,
        GCConfig(auto_trigger=False, preserve_recent_turns=1),
        context_limit=1_000,
        counter=WordCounter(),
    )
    fill(session, 9)
    session.send_message("Hi")
    assert session.get_gc_history() == []
    fill(session, 1)
    session.send_message("Hi")
    assert [each.trigger_reason for each in session.get_gc_history()] == [
        GCTriggerReason.CONTEXT_LIMIT
    ]


def test_room_for_the_answer_is_kept() -> None:
    provider = Script("one")
    session = session_with(
        provider,
        GCConfig(auto_trigger=False, preserve_recent_turns=1, reserve_output_tokens=500),
        context_limit=1_000,
        counter=WordCounter(),
    )
    fill(session, 6)
    session.send_message("Hi")
    assert count_tokens(provider.requests[0], WordCounter()) <= 500


# --- refusals ---


def test_a_refused_request_is_made_smaller_and_sent_once_more() -> None:
    provider = Script(ContextLimitError("too long"), "ok")
    session = session_with(
        provider, GCConfig(preserve_recent_turns=2), context_limit=1_000, counter=WordCounter()
    )
    fill(session, 6)
    assert session.send_message("Hi").text == "ok"
    first, second = provider.requests
    assert count_tokens(second, WordCounter()) < count_tokens(first, WordCounter())
    assert first[-1] is second[-1]
    assert second[-1].text == "Hi"
    [result] = session.get_gc_history()
    assert result.trigger_reason is GCTriggerReason.CONTEXT_LIMIT
    # The provider's word counts for more than our figures, which are below the target already.
    assert result.tokens_after <= 0.6 * result.tokens_before
    assert_in_step(session)


def test_a_stream_may_refuse_before_it_begins() -> None:
    asked = 0

    def provider(_request: list[Message]) -> Iterator[str]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ContextLimitError("too long")
        yield "ok"

    session = session_with(provider, GCConfig(preserve_recent_turns=1), counter=WordCounter())
    fill(session, 5)
    assert session.send_message("Hi").text == "ok"
    assert asked == 2


def test_a_refusal_after_text_was_shown_is_not_tried_again() -> None:
    asked = 0

    def provider(_request: list[Message]) -> Iterator[str]:
        nonlocal asked
        asked += 1
        yield "Well, "
        raise ContextLimitError("too long after all")

    session = session_with(provider, GCConfig(preserve_recent_turns=1), counter=WordCounter())
    fill(session, 5)
    with pytest.raises(ContextLimitError):
        session.send_message("Hi")
    assert asked == 1
    assert session.get_gc_history() == []


def test_a_second_refusal_reaches_the_host() -> None:
    provider = Script(ContextLimitError("first"), ContextLimitError("second"), "ok")
    session = session_with(provider, GCConfig(preserve_recent_turns=1), counter=WordCounter())
    fill(session, 6)
    with pytest.raises(ContextLimitError, match="second"):
        session.send_message("Hi")
    assert len(provider.requests) == 2
    assert session.history[-1].text == "Hi"
    assert session.send_message(None).text == "ok"


@pytest.mark.parametrize("plugin", [OldestFirst(), NoGCPlugin()], ids=lambda plugin: plugin.name)
def test_a_refused_request_is_never_sent_unchanged(plugin: GCPlugin) -> None:
    provider = Script(ContextLimitError("too long"), "ok")
    session = session_with(provider, plugin=plugin, context_limit=1_000, counter=WordCounter())
    fill(session, 3)
    before = session.budget.total_tokens()
    assert session.send_message("Hi").text == "ok"
    assert len(provider.requests) == 2
    collected = session.get_gc_history()[-1]
    assert collected.trigger_reason is GCTriggerReason.CONTEXT_LIMIT
    # The provider did not name its window: only the target is safe.
    assert collected.tokens_after <= before * 0.6


@pytest.mark.parametrize("plugin", [OldestFirst(), NoGCPlugin()], ids=lambda plugin: plugin.name)
def test_a_refused_request_of_fixed_content_ends_in_the_floor(plugin: GCPlugin) -> None:
    refusal = ContextLimitError("too long")
    provider = Script(refusal)
    session = session_with(provider, plugin=plugin, context_limit=1_000, counter=WordCounter())
    with pytest.raises(ContextFloorError, match="the provider refused") as caught:
        session.send_message("Hi")
    assert len(provider.requests) == 1
    assert caught.value.__cause__ is refusal
    assert caught.value.floor == {"conversation": session.budget.counted_tokens()}
    assert caught.value.result.outcome is GCOutcome.NO_GAIN
    assert caught.value.result.details["fits"] is False
    assert "use a larger window" in str(caught.value)
    assert [message.text for message in session.history] == ["Hi"]


def test_without_a_strategy_a_refusal_says_so() -> None:
    session = GCSession(
        Script(ContextLimitError("too long")),
        counter=WordCounter(),
        registry=PluginRegistry(load_installed=False),
    )
    with pytest.raises(ContextFloorError, match="No strategy is set: call set_gc_plugin"):
        session.send_message("Hi")


def test_a_request_that_can_not_fit_is_not_sent() -> None:
    provider = Script()
    session = session_with(provider, context_limit=100, counter=WordCounter())
    with pytest.raises(ContextFloorError, match="up to 154 tokens and only 100 fit") as caught:
        session.send_message("word " * 150)
    assert provider.requests == []
    assert caught.value.floor == {"conversation": 154}
    assert session.get_gc_history() == []


def test_a_strategy_that_fails_is_named_when_the_request_does_not_fit() -> None:
    class Broken(OldestFirst):
        name = "gc_broken"

        def select(self, _collection: Collection) -> None:
            raise RuntimeError("out of order")

    provider = Script("ok")
    session = session_with(provider, plugin=Broken(), context_limit=500, counter=WordCounter())
    fill(session, 6)
    session.send_message("word " * 150)
    collected = session.get_gc_history()[-1]
    assert collected.plugin_name == "core"
    assert re.search("gc_broken.*RuntimeError: out of order", collected.details["strategy_error"])


REFUSALS = [
    "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 "
    "tokens. However, your messages resulted in 130012 tokens.\", 'code': "
    "'context_length_exceeded'}}",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input "
    "length or `max_tokens` and try again",
    "400 INVALID_ARGUMENT. The input token count (1048577) exceeds the maximum number of tokens "
    "allowed (1048576).",
    "ValidationException: Input is too long for requested model.",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "the request exceeds the available context size, try increasing it",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_the_refusals_of_large_providers_are_recognised(text: str) -> None:
    class BadRequestError(Exception):
        pass

    assert is_context_refusal(BadRequestError(text))
    provider = Script(BadRequestError(text), "ok")
    session = session_with(provider, GCConfig(preserve_recent_turns=1), counter=WordCounter())
    fill(session, 5)
    assert session.send_message("Hi").text == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000.",
        "This request would exceed your organization's rate limit of 40,000 input tokens per "
        "minute",
        "ThrottlingException: Too many tokens, please wait before trying again.",
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000",
        "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after",
        "Incorrect API key provided",
        "overloaded_error",
    ],
)
def test_other_errors_are_not_refusals(text: str) -> None:
    assert not is_context_refusal(RuntimeError(text))


def test_a_context_limit_error_is_a_refusal_with_any_text() -> None:
    assert is_context_refusal(ContextLimitError(""))


# --- what the provider reports ---


def test_reported_usage_corrects_the_budget() -> None:
    session = session_with(
        lambda _: ("one two", UsageReport(107, 2)), counter=WordCounter(), context_limit=1_000
    )
    session.send_message("one two three")
    assert session.budget.unbooked_tokens == 100  # 7 were counted
    assert session.budget.counted_tokens() == 13
    assert dict(session.get_context_usage()) == {
        "context_limit": 1_000,
        "total_tokens": 113,
        "percent_used": pytest.approx(11.3),
        "tokens_remaining": 887,
        "turns": 1,
        "confidence": Confidence.CALIBRATED,
        "fixed_tokens": 107,
    }


def test_a_later_report_takes_the_place_of_an_earlier_one() -> None:
    provider = Script(
        ("one", UsageReport(500)), ("two", UsageReport(20)), ("three", UsageReport(15))
    )
    session = session_with(provider, counter=WordCounter())
    corrections = []
    for _ in range(3):
        session.send_message("Hi")
        corrections.append((session.budget.ratio, session.budget.unbooked_tokens))
    assert corrections == [(1.0, 495), (1.0, 5), (0.599609375, 1)]  # 5, 15 and 25 were counted


@pytest.mark.parametrize(
    ("share", "causes"),
    [
        pytest.param(0.49, "include the tokens that were read from the cache", id="too low"),
        pytest.param(2.01, "correct context_limit", id="above the window"),
    ],
)
def test_a_report_that_can_not_be_right_is_not_believed(
    share: float, causes: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider's figure may leave out cached tokens, or it is that of another request."""
    session = session_with(None, counter=WordCounter(), context_limit=1_000)
    told: list[tuple[float, float]] = []
    session.on_gc_threshold = lambda *figures: told.append(figures)
    fill(session, 5)
    session.before_send()
    session.report_usage(600)
    counted, total = session.budget.counted_tokens(), session.budget.total_tokens()
    assert session.get_context_usage()["confidence"] is Confidence.CALIBRATED
    for _ in range(2):
        session.before_send()
        session.report_usage(share * counted)
        assert session.budget.total_tokens() == total
        assert session.get_context_usage()["confidence"] is Confidence.DOUBTED
    assert caplog.text.count("is not believed") == 1
    assert causes in caplog.text
    assert "If it is that of another request" in caplog.text
    assert told == []
    restored = GCSession.restore(session.save(), counter=WordCounter(), strategy=OldestFirst())
    assert restored.get_context_usage() == session.get_context_usage()
    session.report_usage(counted // 2)
    assert session.budget.total_tokens() == counted // 2
    assert session.get_context_usage()["confidence"] is Confidence.CALIBRATED


@pytest.mark.parametrize("strategy", [OldestFirst(), None])
@pytest.mark.parametrize("reported", [150_000, 127_999])
def test_a_report_that_is_too_high_does_not_block_the_session(
    reported: int, strategy: GCPlugin | None
) -> None:
    session = GCSession(context_limit=128_000, counter=WordCounter())
    session.set_gc_plugin(strategy)
    fill(session, 2, words=20)
    session.before_send()
    session.report_usage(reported)
    for number in range(50):
        if number == 25:
            saved = session.save()
            session = GCSession.restore(saved, counter=WordCounter(), strategy=strategy)
        session.append(user("Hi"))
        sent = session.before_send()
        assert len(sent) == len(session.history)
        session.append(model("Hello"))
        session.after_turn()
    session.before_send()
    session.report_usage(300)
    assert session.budget.total_tokens() == 300


def test_tokens_that_were_not_booked_are_a_reason_to_collect_and_not_to_refuse() -> None:
    session = session_with(
        None, GCConfig(preserve_recent_turns=1), counter=WordCounter(), context_limit=1_000
    )
    fill(session, 1)
    session.before_send()
    session.report_usage(900)
    fill(session, 3)
    session.append(user("Hi"))

    assert len(session.before_send()) < 9
    assert session.budget.total_tokens() <= 1_000

    for _ in range(10):  # the fixed content alone is above the window now, as reported
        session.report_usage(1_000)
        session.append(user("word " * 30))
        session.before_send()
    session.append(user("word " * 1_000))
    with pytest.raises(ContextFloorError):
        session.before_send()


def test_a_report_belongs_to_the_request_that_it_answers() -> None:
    session = session_with(None, counter=WordCounter(), context_limit=20_000)
    fill(session, 10)
    small = session.before_send()
    fill(session, 90)
    large = session.before_send()
    session.report_usage(12_000, request=large)
    total = session.budget.total_tokens()

    session.report_usage(3_000, request=small)
    assert session.budget.total_tokens() == total == 12_000
    session.report_usage(12_500)  # without a request, of the newest one
    assert session.budget.total_tokens() == 12_500


def test_a_report_needs_the_request_itself() -> None:
    session = session_with(None, counter=WordCounter())
    fill(session, 1)
    request = session.before_send()
    before = session.save()
    with pytest.raises(GCError, match="expected the list that before_send returned, not a copy"):
        session.report_usage(500, request=list(request))
    assert session.save() == before


def test_a_turn_reports_the_usage_of_its_own_request() -> None:
    """Another thread may send a larger request while an answer streams."""

    def provider(request: list[Message]) -> Any:
        fill(session, 90)
        session.before_send()
        return "ok", UsageReport(count_tokens(request, WordCounter()))

    session = session_with(provider, counter=WordCounter(), context_limit=20_000)
    session.send_message("Hi")

    assert session.get_context_usage()["confidence"] is Confidence.CALIBRATED
    assert session.budget.total_tokens() == session.budget.counted_tokens()


def test_works_without_any_report() -> None:
    session = session_with(lambda _: "ok", counter=WordCounter())
    session.send_message("Hi")
    assert session.budget.total_tokens() == session.budget.counted_tokens()
    assert session.get_context_usage()["confidence"] is Confidence.EXACT


@pytest.mark.parametrize("reported", [0, -1, math.nan, math.inf, "12", None])
def test_a_report_that_is_not_a_positive_number_is_an_error(reported: Any) -> None:
    session = session_with(lambda _: "ok", counter=WordCounter())
    session.send_message("Hi")
    before = session.get_context_usage()
    with pytest.raises(GCError, match="expected a positive number"):
        session.report_usage(reported)
    assert session.get_context_usage() == before
    assert session.send_message("Hi").text == "ok"


def test_a_report_before_any_request_is_ignored() -> None:
    session = session_with(counter=WordCounter())
    session.append(user("Hi"))
    session.report_usage(500)
    assert session.budget.total_tokens() == session.budget.counted_tokens()


def test_hidden_tokens_are_seen_once_reported() -> None:
    host = DummyModel(2_000, tool_rounds=0, hidden_tokens=1_000)
    session = session_with(host, GCConfig(preserve_recent_turns=1), context_limit=2_000)
    for number in range(100):
        session.send_message(f"Question {number}")
    assert session.budget.unbooked_tokens == 1_000
    assert host.refusals == 0
    assert host.largest_request <= 2_000
    assert {each.trigger_reason for each in session.get_gc_history()} == {GCTriggerReason.THRESHOLD}


def test_the_upper_bound_decides_at_the_window() -> None:
    provider = Script("ok")
    session = session_with(
        provider,
        GCConfig(auto_trigger=False, preserve_recent_turns=1),
        context_limit=1_000,
        counter=WordCounter(tolerance=0.2),
    )
    fill(session, 9)  # 900 counted, which may be 1,080
    session.send_message("Hi")
    assert [each.trigger_reason for each in session.get_gc_history()] == [
        GCTriggerReason.CONTEXT_LIMIT
    ]
    assert count_tokens(provider.requests[0], WordCounter()) < 900


def test_reported_usage_needs_no_tolerance() -> None:
    provider = Script(("ok", UsageReport(805)), "ok")
    session = session_with(
        provider,
        GCConfig(auto_trigger=False, preserve_recent_turns=1),
        context_limit=1_000,
        counter=WordCounter(tolerance=0.2),
    )
    fill(session, 8)
    session.send_message("Hi")
    # 805 for sure, and 10 % of the window that may be 12 %.
    session.send_message("word " * 90)
    assert session.get_gc_history() == []
    assert len(provider.requests[1]) == 19


# --- a host with its own loop ---


def test_the_points_of_a_turn_one_by_one() -> None:
    told: list[tuple[float, float]] = []
    session = session_with(
        None, GCConfig(preserve_recent_turns=1), context_limit=1_000, counter=WordCounter()
    )
    session.on_gc_threshold = lambda *figures: told.append(figures)
    fill(session, 7)
    session.append(user("Hi"))
    request = session.before_send()
    assert request == session.history
    session.report_usage(790)
    session.report_usage(790, 15)
    session.append(model("one"))
    session.report_usage(790, 20)
    assert told == [(80.5, 80.0)]
    assert session.budget.unbooked_tokens == 790 - count_tokens(request, WordCounter())
    result = session.after_turn()
    assert result is not None
    assert result.trigger_reason is GCTriggerReason.THRESHOLD
    assert result.success
    assert session.after_turn() is None
    assert_in_step(session)


def test_a_turn_that_needs_nothing_costs_no_collection() -> None:
    session = session_with()
    session.append(user("Hi"))
    session.before_send()
    session.append(model("Hello"))
    assert session.after_turn() is None
    assert session.get_gc_history() == []


def test_a_host_can_recover_from_a_refusal_itself() -> None:
    session = session_with(
        None, GCConfig(preserve_recent_turns=1), context_limit=1_000, counter=WordCounter()
    )
    fill(session, 5)
    before = session.budget.total_tokens()
    assert session.recover_from_refusal()
    assert session.budget.total_tokens() < before
    while session.recover_from_refusal():
        pass
    assert session.history  # what is recent is left


# --- what can't be sent ---


def broken(*, repair: bool = False) -> tuple[GCSession, Script]:
    provider = Script("ok", "ok")
    session = session_with(provider, repair=repair)
    session.append(user("Look"))
    session.append(calls(LOOK, LISTEN))
    session.append(results(ToolResult("c1", "look", "nothing")))
    return session, provider


def test_a_dangling_call_is_not_sent() -> None:
    session, provider = broken()
    with pytest.raises(InvalidHistoryError, match=r"calls_have_results.*listen") as caught:
        session.send_message("Never mind")
    assert provider.requests == []
    [violation] = caught.value.violations
    assert violation.message_id == session.history[1].message_id
    # It stays invalid until the host corrects it.
    with pytest.raises(InvalidHistoryError):
        session.before_send()


def test_an_open_call_is_not_sent() -> None:
    session, provider = broken()
    with pytest.raises(InvalidHistoryError, match=r"append the results of its open calls.*listen"):
        session.send_message(None)
    assert provider.requests == []
    session.append(results(ToolResult("c2", "listen", "nothing")))
    assert session.send_message(None).text == "ok"


def test_a_history_that_does_not_begin_with_the_user_is_not_sent() -> None:
    session = session_with(Script())
    session.append(model("Hello, can I help you?"))
    with pytest.raises(InvalidHistoryError, match="user_first"):
        session.send_message("Yes")


def test_a_model_message_after_only_instructions_is_not_sent() -> None:
    session = session_with(Script())
    session.append(Message.from_text(Role.SYSTEM, "Be kind."))
    with pytest.raises(InvalidHistoryError, match="something_to_send"):
        session.before_send()
    session.append(model("Hello, can I help you?"))
    with pytest.raises(InvalidHistoryError, match="user_first"):
        session.before_send()


def test_a_result_whose_call_was_not_booked_is_not_sent() -> None:
    def no_calls_please(message: Message) -> None:
        if message.function_calls:
            raise RuntimeError("no rule for calls")

    session = session_with(Script(), policy_of=no_calls_please)
    session.append(user("Look"))
    with pytest.raises(RuntimeError, match="no rule"):
        session.append(calls(LOOK))
    session.append(results(ToolResult("c1", "look", "nothing")))
    with pytest.raises(InvalidHistoryError, match="results_have_calls"):
        session.before_send()


def test_a_result_without_a_call_is_not_sent() -> None:
    session = session_with(Script())
    session.append(user("Hi"))
    session.append(results(ToolResult("c9", "look", "nothing")))
    with pytest.raises(InvalidHistoryError, match="results_have_calls"):
        session.send_message(None)


def test_a_fault_far_from_the_end_is_found_every_time() -> None:
    session = session_with(Script())
    session.append(user("Look"))
    session.append(calls(LOOK))
    fill(session, 50)
    for _ in range(2):
        with pytest.raises(InvalidHistoryError, match="look"):
            session.before_send()


def test_repair_answers_a_dangling_call() -> None:
    session, provider = broken(repair=True)
    assert session.send_message("Never mind").text == "ok"
    [request] = provider.requests
    assert check_history(request) == []
    assert roles(request) == ["user", "model", "tool", "tool", "user"]
    assert request[1].function_calls == [LOOK, LISTEN]
    [answer] = request[3].function_responses
    assert answer.call_id == "c2"
    assert answer.is_error
    assert_in_step(session)
    # The repair stays in the history.
    session.send_message("Hi")
    assert provider.requests[1][:5] == request


def test_repair_does_not_invent_results_of_open_calls() -> None:
    session, _ = broken(repair=True)
    with pytest.raises(InvalidHistoryError, match="append the results of its open calls"):
        session.send_message(None)


# --- another model ---


def test_a_smaller_window_is_checked_at_once() -> None:
    session = session_with(
        lambda _: "ok",
        GCConfig(preserve_recent_turns=1),
        context_limit=10_000,
        counter=WordCounter(),
    )
    fill(session, 20)
    result = session.set_context_limit(1_000)
    assert result is not None
    assert result.trigger_reason is GCTriggerReason.THRESHOLD
    assert session.budget.total_tokens() <= 600
    assert session.get_context_usage()["context_limit"] == 1_000
    assert session.send_message("Hi").text == "ok"


def test_a_request_that_did_not_fit_is_sent_in_a_larger_window() -> None:
    provider = Script("ok")
    session = session_with(provider, context_limit=100, counter=WordCounter())
    with pytest.raises(ContextFloorError):
        session.send_message("word " * 150)
    assert session.set_context_limit(1_000) is None
    assert session.send_message(None).text == "ok"


def test_another_window_resumes_paused_collections() -> None:
    session = session_with(None, plugin=NoGCPlugin(), context_limit=1_000, counter=WordCounter())
    fill(session, 9)
    for _ in range(3):
        session.after_turn()
    assert session.paused_because is not None
    assert len(session.get_gc_history()) == 1
    session.set_context_limit(1_100)
    assert len(session.get_gc_history()) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_window_must_be_positive(limit: int) -> None:
    session = session_with()
    with pytest.raises(GCError, match="window in tokens"):
        session.set_context_limit(limit)
    with pytest.raises(GCError, match="window in tokens"):
        GCSession(context_limit=limit)


# --- the room for the answer ---


def test_the_room_for_the_answer_can_change_between_requests() -> None:
    session = session_with(
        config=GCConfig(preserve_recent_turns=1), context_limit=1_000, counter=WordCounter()
    )
    fill(session, 6)
    session.append(user("And now?"))
    assert len(session.before_send()) == 13

    session.set_output_reserve(700)
    assert len(session.before_send()) < 13
    assert session.budget.total_tokens() <= 300
    session.set_output_reserve(900)
    assert session.before_send()
    assert session.budget.total_tokens() <= 100
    session.set_output_reserve(0)
    assert session.before_send()


def test_a_reserve_in_the_configuration_has_priority_over_the_one_of_the_session() -> None:
    def reserve(**settings: Any) -> int:
        session.set_gc_plugin(OldestFirst(), GCConfig(**settings))
        return session.config.reserve_output_tokens

    session = session_with()
    session.set_output_reserve(300)

    assert reserve() == 300
    assert reserve(reserve_output_tokens=200) == 200
    assert reserve(plugin_config={"reserve_output_tokens": 100}) == 100
    session.set_output_reserve(400)
    assert session.config.reserve_output_tokens == 100
    assert reserve(reserve_output_tokens=0) == 0
    assert reserve(max_turns=5) == 400
    session.remove_gc_plugin()
    assert session.config.reserve_output_tokens == 400


def test_settings_for_one_collection_leave_the_room_for_the_answer() -> None:
    session = session_with(
        config=GCConfig(preserve_recent_turns=1, auto_trigger=False),
        context_limit=1_000,
        counter=WordCounter(),
    )
    fill(session, 8)
    session.set_output_reserve(700)

    assert session.plan_gc(target_percent=50).result.tokens_after <= 300
    assert session.plan_gc(target_percent=50, reserve_output_tokens=0).result.tokens_after > 300


def test_a_configuration_of_the_host_is_not_changed_by_the_room_for_the_answer() -> None:
    config = GCConfig()
    session = session_with(config=config)
    session.set_output_reserve(300)

    assert config == GCConfig()
    assert session.config.given() == config.given()


def test_another_room_for_the_answer_does_not_resume_paused_collections() -> None:
    session = session_with(None, plugin=NoGCPlugin(), context_limit=1_000, counter=WordCounter())
    fill(session, 9)
    session.after_turn()
    assert session.paused_because is not None

    for tokens in range(5):
        session.set_output_reserve(tokens)
        session.before_send()
    assert len(session.get_gc_history()) == 1


def test_a_sub_agent_inherits_the_room_for_the_answer_with_the_window() -> None:
    session = session_with(context_limit=1_000)
    session.set_output_reserve(300)
    child, smaller = session.child(), session.child(context_limit=300)
    session.set_output_reserve(400)

    assert child.config.reserve_output_tokens == 300
    assert smaller.config.reserve_output_tokens == 0


def test_the_room_for_the_answer_is_taken_from_the_window_and_not_from_what_may_be_used() -> None:
    session = session_with(config=GCConfig(max_context_tokens=60_000), context_limit=200_000)
    session.set_output_reserve(64_000)
    session.append(user("Hello"))
    assert session.before_send()
    assert session.config.request_limit(200_000) == 60_000

    session.set_output_reserve(150_000)
    assert session.config.request_limit(200_000) == 50_000


@pytest.mark.parametrize(
    "set_it",
    [
        pytest.param(lambda session: session.set_output_reserve(64_000), id="by the host"),
        pytest.param(
            lambda session: session.set_gc_plugin(
                OldestFirst(), GCConfig(reserve_output_tokens=64_000, pinned_turn_indices=[0])
            ),
            id="in the configuration",
        ),
        pytest.param(
            lambda session: session.set_gc_plugin(
                OldestFirst(), GCConfig(plugin_config={"reserve_output_tokens": 64_000})
            ),
            id="in the options",
        ),
        pytest.param(lambda session: session.manual_gc(reserve_output_tokens=64_000), id="once"),
    ],
)
def test_a_reserve_that_leaves_no_room_for_requests_is_refused(
    set_it: Callable[[GCSession], object],
) -> None:
    """Claude Code asks for answers of up to 64,000 tokens."""
    session = session_with(context_limit=60_000)
    fill(session, 2)
    before = session.save()
    with pytest.raises(GCConfigError, match=r"a reserve of 64,000 .* window of 60,000"):
        set_it(session)
    assert session.save() == before
    assert session.before_send()


def test_a_window_that_the_reserve_fills_is_refused() -> None:
    session = session_with(context_limit=200_000)
    session.set_output_reserve(64_000)
    before = session.save()
    with pytest.raises(GCConfigError, match=r"a reserve of 64,000 .* window of 60,000"):
        session.set_context_limit(60_000)
    with pytest.raises(GCConfigError, match=r"a reserve of 64,000 .* window of 60,000"):
        GCSession.restore(before, counter=COUNTER, context_limit=60_000, strategy=OldestFirst())
    assert session.save() == before
    session.set_context_limit(72_000)
    session.set_output_reserve(64_800)
    with pytest.raises(GCConfigError, match="leaves less than a tenth"):
        session.set_output_reserve(64_801)


def test_a_reserve_that_is_saved_refers_to_the_saved_window() -> None:
    config = GCConfig(reserve_output_tokens=150_000)
    saved = session_with(config=config, context_limit=1_000_000).save()

    restored = GCSession.restore(saved, counter=COUNTER, strategy=OldestFirst())

    assert restored.budget.context_limit == 1_000_000
    assert restored.config.request_limit(1_000_000) == 850_000


def test_a_strategy_can_be_removed_with_any_reserve_of_the_host() -> None:
    session = session_with(config=GCConfig(reserve_output_tokens=5_000), context_limit=60_000)
    session.set_output_reserve(64_000)  # the configuration has priority
    session.close()
    assert session.strategy is None


# --- sub-agents ---


class OldestFirstPlugin:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo("gc_oldest", OldestFirst, config_model=StrategySettings)]


def parent_session(**options: Any) -> GCSession:
    registry = PluginRegistry(load_installed=False)
    registry.register(OldestFirstPlugin(), "oldest")
    return session_with(
        lambda _: "parent's",
        registry=registry,
        context_limit=5_000,
        counter=WordCounter(),
        **options,
    )


def test_a_child_from_a_profile(tmp_path: Path) -> None:
    profile = {
        "name": "research",
        "model": "some-model",
        "gc": {"type": "gc_oldest", "threshold_percent": 75.0, "target_percent": 50.0},
    }
    (tmp_path / "research.json").write_text(json.dumps(profile))
    parent = parent_session(tools=lambda _: "seen")
    parent.send_message("Hi")
    child = parent.child("research", profiles=tmp_path)
    assert child.strategy is not None
    assert child.strategy.name == "gc_oldest"
    assert child.config.threshold_percent == 75.0
    assert child.config.target_percent == 50.0
    assert child.history == []
    assert child.budget.agent_id == "research"
    assert child.budget.context_limit == 5_000
    assert child.budget.counter is parent.budget.counter
    assert child.registry is parent.registry
    assert child.tools is parent.tools
    assert child.send_message("Hi").text == "parent's"
    assert len(parent.history) == 2
    assert parent.config.threshold_percent == 80.0


def test_a_child_from_an_inline_configuration() -> None:
    parent = parent_session(agent_id="boss")
    own_tools: Callable[[FunctionCall], str] = lambda _: "own"  # noqa: E731
    child = parent.child(
        {"gc": {"type": "oldest", "preserve_recent_turns": 2, "pressure_percent": 0}},
        lambda _: "child's",
        tools=own_tools,
        context_limit=700,
        agent_id="helper",
    )
    assert child.config.continuous_mode
    assert child.config.preserve_recent_turns == 2
    assert child.budget.context_limit == 700
    assert child.budget.agent_id == "helper"
    assert child.tools is own_tools
    assert child.send_message("Hi").text == "child's"
    assert parent.child({"gc": {"type": "oldest"}}).budget.agent_id == "boss-child"


def test_a_child_collects_under_its_own_configuration() -> None:
    child = parent_session().child(
        {"gc": {"type": "oldest", "threshold_percent": 50.0, "preserve_recent_turns": 1}},
        context_limit=1_000,
    )
    fill(child, 5)
    child.send_message("Hi")
    [result] = child.get_gc_history()
    assert result.outcome is GCOutcome.REACHED
    assert child.budget.total_tokens() <= 375


WITHOUT_A_BLOCK: dict[str, Callable[[GCSession, Path], GCSession]] = {
    "nothing": lambda parent, _: parent.child(),
    "an empty configuration": lambda parent, _: parent.child({}),
    "no block": lambda parent, _: parent.child({"gc": None}),
    "a profile without a block": lambda parent, folder: parent.child("plain", profiles=folder),
}


@pytest.mark.parametrize("child_of", WITHOUT_A_BLOCK.values(), ids=WITHOUT_A_BLOCK.keys())
def test_a_child_without_a_gc_block_inherits_strategy_and_settings(
    tmp_path: Path, child_of: Callable[[GCSession, Path], GCSession]
) -> None:
    (tmp_path / "plain.json").write_text(json.dumps({"name": "plain", "model": "some-model"}))
    parent = parent_session()
    plugin = OldestFirst()
    plugin.initialize({"notify_on_gc": True, "preserve_recent_turns": 2})
    options = {"notification_template": "{removed} went"}
    parent.set_gc_plugin(plugin, GCConfig(threshold_percent=50.0, plugin_config=options))

    child = child_of(parent, tmp_path)

    assert isinstance(child.strategy, OldestFirst)
    assert child.strategy is not plugin
    assert child.strategy.settings == plugin.settings
    assert child.config == parent.config
    assert child.config.preserve_recent_turns == 2


def test_a_child_of_a_session_without_a_strategy_has_none() -> None:
    parent = GCSession(registry=PluginRegistry(load_installed=False))

    assert parent.child().strategy is None
    assert parent.child({}).config == GCConfig()


def test_an_inherited_strategy_is_independent_of_the_one_of_the_parent() -> None:
    shut_down: list[OldestFirst] = []

    class Closing(OldestFirst):
        def shutdown(self) -> None:
            shut_down.append(self)

    parent = parent_session()
    parent.set_gc_plugin(Closing())
    child = parent.child()
    inherited = child.strategy

    child.close()
    assert shut_down == [inherited]
    assert parent.strategy is not None
    parent.set_gc_plugin(None)
    assert len(shut_down) == 2


def test_a_plugin_without_the_base_class_is_inherited_with_its_options() -> None:
    class Configured(ScriptedPlugin):
        options: Any = None

        def initialize(self, config: dict[str, Any] | None = None) -> None:
            self.options = config

    plugin = Configured(lambda history: history)
    plugin.initialize({"depth": 2})
    parent = parent_session()
    parent.set_gc_plugin(plugin, GCConfig(max_turns=7))

    child = parent.child()

    assert isinstance(child.strategy, Configured)
    assert child.strategy is not plugin
    assert child.strategy.options == {"depth": 2}
    assert child.config.max_turns == 7


def test_a_strategy_that_can_not_be_copied_is_an_error_that_names_the_remedy() -> None:
    class Unique(OldestFirst):
        def __copy__(self) -> "Unique":
            raise TypeError("there is only one")

    parent = parent_session()
    parent.set_gc_plugin(Unique())

    with pytest.raises(GCPluginError, match=r"Unique can't be inherited.*only one.*'gc' block"):
        parent.child()
    assert parent.child({"gc": {"type": "oldest"}}).strategy


def test_the_type_of_an_agent_is_its_id_unless_it_is_given() -> None:
    shown: list[tuple[str, dict[str, Any]]] = []

    class Display:
        def on_agent_instruction_budget_updated(
            self, agent_id: str, snapshot: dict[str, Any]
        ) -> None:
            shown.append((agent_id, snapshot))

    session = GCSession(agent_id="research", ui_hooks=Display())
    session.append(Message.from_text(Role.USER, "Hi"))

    [(agent_id, snapshot)] = shown
    assert (agent_id, snapshot["agent_type"]) == ("research", "research")
    assert GCSession().budget.agent_type == "main"
    assert GCSession(agent_id="a", agent_type="explore").budget.agent_type == "explore"
    assert session.child().budget.agent_type == "research-child"
    restored = GCSession.restore(session.save(), counter=session.budget.counter)
    assert restored.budget.agent_type == "research"


def test_a_child_of_a_bad_profile_is_an_error(tmp_path: Path) -> None:
    parent = parent_session()
    with pytest.raises(GCConfigError, match="profile 'research' does not exist"):
        parent.child("research", profiles=tmp_path)
    with pytest.raises(GCConfigError, match="threshold_percent"):
        parent.child({"gc": {"type": "oldest", "treshold_percent": 50.0}})


def test_the_prompt_itself_is_never_collected_before_it_is_sent() -> None:
    provider = Script("hello", "fine")
    session = session_with(
        provider,
        config=GCConfig(preserve_recent_turns=0),
        counter=WordCounter(),
        context_limit=300,
    )
    session.send_message("hi")
    session.send_message("word " * 250)  # alone above threshold and target

    assert session.get_gc_history()[0].trigger_reason is GCTriggerReason.THRESHOLD
    assert provider.requests[-1][-1].text == "word " * 250
