"""One turn with a provider: request, answer and tool calls, until the model calls no tool.

The turn is written once, as a generator of steps. One driver runs them in plain code, the other on
an event loop.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from jaato_gc.messages import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.session.provider import (
    Answer,
    Provider,
    ToolHandler,
    awaited,
    is_context_refusal,
    refuse_awaitable,
)
from jaato_gc.summaries import HOST_LOOP

if TYPE_CHECKING:
    from jaato_gc.session.session import GCSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the session that may take a while: an async host runs it in a worker thread."""

    run: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class AskModel:
    """A request to the provider. Its result is the finished message."""

    provider: Provider
    request: list[Message]
    answer: Answer


@dataclass(frozen=True, slots=True)
class RunTool:
    """A tool call. Its result is what the handler returns."""

    handler: ToolHandler
    call: FunctionCall


Step = Work | AskModel | RunTool
Turn = Generator[Step, Any, Message]


def turn(
    session: "GCSession",
    provider: Provider,
    tools: ToolHandler | None,
    new_answer: Callable[[], Answer],
) -> Turn:
    """Returns the steps of one turn, from the first request to the final answer."""
    while True:
        answer = session.append((yield from _exchange(session, provider, new_answer)))
        if not answer.function_calls or tools is None:
            yield Work(session.after_turn)
            return answer
        results = []
        for call in answer.function_calls:
            try:
                value = yield RunTool(tools, call)
            except Exception as error:  # the model sees it, and the call has its result
                value = ToolResult(call.id, call.name, f"{type(error).__name__}: {error}", True)
            refuse_awaitable(value, "a tool")
            if not isinstance(value, ToolResult):
                value = ToolResult(call.id, call.name, value)
            results.append(Part(function_response=value))
        session.append(Message(Role.TOOL, results))


def _exchange(session: "GCSession", provider: Provider, new_answer: Callable[[], Answer]) -> Turn:
    """Returns one answer. A refused request is made smaller and sent once more."""
    request = yield Work(session.before_send)
    answer = new_answer()
    try:
        said: Message = yield AskModel(provider, list(request), answer)
        return said
    except Exception as error:
        if answer.has_begun or not is_context_refusal(error):
            raise
        if not (yield Work(session.recover_from_refusal)):
            raise session.floor_error() from error
    request = yield Work(session.before_send)
    said = yield AskModel(provider, list(request), new_answer())
    return said


def run(steps: Turn) -> Message:
    """Runs a turn in plain code."""
    try:
        step = next(steps)
        while True:
            try:
                value = _do(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _do(step: Step) -> Any:
    if isinstance(step, Work):
        return step.run()
    if isinstance(step, AskModel):
        return step.answer.collect(step.provider(step.request))
    return step.handler(step.call)


async def run_async(steps: Turn) -> Message:
    """Runs a turn on an event loop. The session works in a worker thread."""
    try:
        step = next(steps)
        while True:
            try:
                value = await _do_async(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def _do_async(step: Step) -> Any:
    if isinstance(step, Work):
        import asyncio  # here, because plain hosts need no event loop

        # Only in the worker: code on the loop itself must not wait for the loop.
        before = HOST_LOOP.set(asyncio.get_running_loop())
        try:
            return await asyncio.to_thread(step.run)
        finally:
            HOST_LOOP.reset(before)
    if isinstance(step, AskModel):
        return await step.answer.collect_async(step.provider(step.request))
    return await awaited(step.handler(step.call))
