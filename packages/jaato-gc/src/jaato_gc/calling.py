"""Calling a function of a plugin or a host: sync or async, with or without a time limit."""

import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jaato_gc.deadline import DeadlineError, result_of, within

if TYPE_CHECKING:
    import asyncio

HOST_LOOP: contextvars.ContextVar["asyncio.AbstractEventLoop | None"] = contextvars.ContextVar(
    "jaato_gc_host_loop", default=None
)
"""The event loop of an async host whose collection runs in a worker thread."""


class CallTimeoutError(TimeoutError):
    """A function took longer than the time limit of its call.

    It is not a `DeadlineError`: a strategy whose call takes too long may still be in time itself.
    """


def call(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    """Calls a function, such as one that asks a model, and returns its result.

    The function may be async. It then runs on the event loop of an async host, or on one of its
    own, and is cancelled with the turn. With a time limit, a function runs in another thread, and
    is left behind if it takes too long.

    Args:
        function: The function. Its own errors are passed on.
        *arguments: Its arguments.
        seconds: The time limit; ``None``: no limit.

    Raises:
        TimeoutError: It took longer.
    """

    def run() -> Any:
        returned = function(*arguments)
        return _settle(returned, seconds) if inspect.isawaitable(returned) else returned

    try:
        return run() if seconds is None else within(seconds, run)
    except DeadlineError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise CallTimeoutError(f"{name} took {error}") from error


def _settle(awaitable: Awaitable[Any], seconds: float | None) -> Any:
    """Waits for an awaitable from plain code: on the host's event loop, or on one of our own.

    On the host's loop it is cancelled if it takes too long, or if the turn is cancelled.
    """
    import asyncio  # here, because most functions need no event loop
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await awaitable

    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    loop = HOST_LOOP.get()
    if loop is not None and loop.is_running() and loop is not here:
        future = asyncio.run_coroutine_threadsafe(wait(), loop)
        try:
            return result_of(future, seconds)
        finally:
            future.cancel()  # without effect if it is done
    if here is None:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as another:  # this loop waits for us and can't run anything
        return another.submit(asyncio.run, wait()).result()
