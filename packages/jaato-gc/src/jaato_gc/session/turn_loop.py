"""One turn with a provider: request, answer and tool calls, until the model calls no tool.

The turn is written once, as a coroutine. In plain code it awaits only its own functions, which
never wait, so its first step is the whole turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jaato_gc.calling import HOST_LOOP
from jaato_gc.deadline import Work
from jaato_gc.messages import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.session.provider import (
    Answer,
    Provider,
    ToolHandler,
    awaited,
    is_context_refusal,
    refuse_awaitable,
)

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnLoop:
    """One turn, from the first request to the final answer.

    Args:
        session: The session.
        provider: Sends the requests.
        tools: Runs tool calls; without it, they are left to the host.
        on_text: Called with each piece of text of an answer.
    """

    session: "GCSession"
    provider: Provider
    tools: ToolHandler | None
    on_text: Callable[[str], None]

    def run(self) -> Message:
        """Runs the turn in plain code."""
        try:
            self._run(on_loop=False).send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("a turn in plain code never waits")

    async def run_async(self) -> Message:
        """Runs the turn on an event loop. The session works in a worker thread."""
        return await self._run(on_loop=True)

    async def _run(self, *, on_loop: bool) -> Message:
        while True:
            answer = self.session.append(await self._exchange(on_loop))
            if not answer.function_calls or self.tools is None:
                await self._after_turn(on_loop)
                return answer
            await self._call_tools(answer.function_calls, self.tools, on_loop)

    async def _request(self, on_loop: bool) -> list[Message]:
        """Returns the next request. Most take no time: only a collection needs a thread."""
        request = self.session._requests.request_at_once() if on_loop else None
        if request is None:
            request = await _work(self.session.before_send, on_loop)
        return request

    async def _after_turn(self, on_loop: bool) -> None:
        if on_loop and not self.session._schedule.asks_strategy:
            reason = self.session._schedule.turn_ended()
            if reason is None:
                return
            collect = partial(self.session._collector.collect_automatically, reason)
            await _work(collect, on_loop)
        else:
            await _work(self.session.after_turn, on_loop)

    async def _call_tools(
        self, calls: Sequence[FunctionCall], tools: ToolHandler, on_loop: bool
    ) -> None:
        """Appends the results of calls, even if the turn ends meanwhile.

        The remaining calls get results that say so. Finished work is kept, and the history can be
        continued.
        """
        results: list[Part] = []
        try:
            for call in calls:
                results.append(await _result_of(call, tools, on_loop))  # noqa: PERF401
        finally:
            results += [_interrupted(call) for call in calls[len(results) :]]
            self.session.append(Message(Role.TOOL, results))

    async def _exchange(self, on_loop: bool) -> Message:
        """Returns one answer. A refused request is made smaller and sent once more."""
        request = await self._request(on_loop)
        answer = Answer(self.on_text, self.session.report_usage)
        try:
            return await answer.collect(self.provider(request), on_loop)
        except Exception as error:
            if answer.has_begun or not is_context_refusal(error):
                raise
            recover = partial(self.session.recover_from_refusal, error)
            if not await _work(recover, on_loop):
                raise self.session.floor_error() from error
        request = await self._request(on_loop)
        answer = Answer(self.on_text, self.session.report_usage)
        return await answer.collect(self.provider(request), on_loop)


async def _work(function: Callable[[], T], on_loop: bool) -> T:
    """Runs work of the session that may take a while."""
    if not on_loop:
        return function()
    import asyncio  # here, because plain hosts need no event loop

    # Only in the worker: code on the loop itself must not wait for the loop.
    before = HOST_LOOP.set(asyncio.get_running_loop())
    # No thread of the loop's pool: all of them could wait for summarizers that need one.
    work = Work(function)
    HOST_LOOP.reset(before)
    try:
        return await asyncio.wrap_future(work.result)
    finally:
        work.abandon()


def _interrupted(call: FunctionCall) -> Part:
    text = "interrupted: the turn ended before this call returned"
    return Part(function_response=ToolResult(call.id, call.name, text, is_error=True))


async def _result_of(call: FunctionCall, tools: ToolHandler, on_loop: bool) -> Part:
    try:
        value = await awaited(tools(call), on_loop)
    except Exception as error:  # the model sees it, and the call has its result
        value = ToolResult(call.id, call.name, f"{type(error).__name__}: {error}", True)
    refuse_awaitable(value, "a tool")
    if not isinstance(value, ToolResult):
        value = ToolResult(call.id, call.name, value)
    return Part(function_response=value)
