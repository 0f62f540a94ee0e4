"""Waiting for a coroutine from plain code: on the host's event loop, or on one of our own."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jaato_gc._summarizer import HOST_LOOP
from jaato_gc._workers import DeadlineError


def settle(awaitable: Awaitable[Any], seconds: float | None) -> Any:
    """What a summarizer is waiting for, within some seconds if there is a host's loop to ask."""

    async def wait() -> Any:
        return await awaitable

    here = _loop_of_this_thread()
    loop = HOST_LOOP.get()
    if loop is not None and loop.is_running() and loop is not here:
        future = asyncio.run_coroutine_threadsafe(wait(), loop)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():  # its own time limit, not ours
                raise
            future.cancel()
            raise DeadlineError(f"more than {seconds:g} s") from error
    if here is None:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as another:  # this loop is waiting for us: it can't run anything
        return another.submit(asyncio.run, wait()).result()


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
