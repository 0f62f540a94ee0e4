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
from jaato_gc.errors import NotConfiguredError
from jaato_gc.messages import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.session.observers import ThresholdCallback
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
        on_loop: Whether there is an event loop: provider and tools may be async then, and the
            session works in a thread of its own.
    """

    session: "GCSession"
    provider: Provider
    tools: ToolHandler | None
    on_text: Callable[[str], None]
    on_loop: bool

    @classmethod
    def begin(
        cls,
        session: "GCSession",
        prompt: str | Message | None,
        on_output: Callable[[str], None] | None,
        on_gc_threshold: ThresholdCallback | None,
        *,
        on_loop: bool,
    ) -> "TurnLoop":
        """Appends the prompt, and returns the turn that it opens.

        Raises:
            NotConfiguredError: The session has no provider.
        """
        if session.provider is None:
            raise NotConfiguredError("there is no provider: give one to GCSession(provider)")
        session._turn_callback = on_gc_threshold
        if prompt is not None:
            if isinstance(prompt, str):
                prompt = Message.from_text(Role.USER, prompt)
            session.append(prompt)
            session._schedule.turn_began()
        on_text = partial(session._observers.call, on_output)
        return cls(session, session.provider, session.tools, on_text, on_loop)

    def run_at_once(self) -> Message:
        """Runs the turn in plain code, and returns the final answer."""
        try:
            self.run().send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("a turn in plain code never waits")

    async def run(self) -> Message:
        """Runs the turn, and returns the final answer."""
        while True:
            answer = self.session.append(await self._exchange())
            if not answer.function_calls or self.tools is None:
                await self._end()
                return answer
            await self._call_tools(answer.function_calls, self.tools)

    async def _exchange(self) -> Message:
        """Returns one answer. A refused request is made smaller and sent once more."""
        request = await self._request()
        answer = self._answer_to(request)
        try:
            return await answer.collect(self.provider(request), self.on_loop)
        except Exception as error:
            if answer.has_begun or not is_context_refusal(error):
                raise
            if not await self._work(partial(self.session.recover_from_refusal, error)):
                raise self.session.floor_error() from error
        request = await self._request()
        answer = self._answer_to(request)
        return await answer.collect(self.provider(request), self.on_loop)

    def _answer_to(self, request: list[Message]) -> Answer:
        """Returns an empty answer, whose reports of usage belong to the request."""
        return Answer(self.on_text, partial(self.session.report_usage, request=request))

    async def _request(self) -> list[Message]:
        """Returns the next request. Most take no time: only a collection needs a thread."""
        self.session._tell_if_crossed()  # here, because a collection has another thread
        request = self.session._requests.request_at_once() if self.on_loop else None
        return await self._work(self.session.before_send) if request is None else request

    async def _call_tools(self, calls: Sequence[FunctionCall], tools: ToolHandler) -> None:
        """Appends the results of calls, even if the turn ends meanwhile.

        The remaining calls get results that say so. Finished work is kept, and the history can be
        continued.
        """
        results: list[Part] = []
        try:
            for call in calls:
                results.append(await self._result_of(call, tools))  # noqa: PERF401
        finally:
            results += [_interrupted(call) for call in calls[len(results) :]]
            self.session.append(Message(Role.TOOL, results))

    async def _result_of(self, call: FunctionCall, tools: ToolHandler) -> Part:
        try:
            value = await awaited(tools(call), self.on_loop)
        except Exception as error:  # the model sees it, and the call has its result
            value = ToolResult(call.id, call.name, f"{type(error).__name__}: {error}", True)
        refuse_awaitable(value, "a tool")
        if not isinstance(value, ToolResult):
            value = ToolResult(call.id, call.name, value)
        return Part(function_response=value)

    async def _end(self) -> None:
        """Collects if that became due during the turn."""
        session = self.session
        session._tell_if_crossed()
        if not self.on_loop or session._schedule.asks_strategy:
            await self._work(session.after_turn)
        elif reason := session._schedule.turn_ended():
            await self._work(partial(session._collector.collect_automatically, reason))

    async def _work(self, function: Callable[[], T]) -> T:
        """Runs work of the session that may take a while."""
        if not self.on_loop:
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
