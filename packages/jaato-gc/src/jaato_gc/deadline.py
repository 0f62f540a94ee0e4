"""Work that can be left behind: because of a time limit, or because a turn is cancelled."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LONGEST_WAIT = threading.TIMEOUT_MAX
"""The seconds of the longest time limit."""


class DeadlineError(Exception):
    """A function took longer than its time limit."""


class AbandonedError(BaseException):
    """Nothing waits for this work any more: its turn was cancelled, or its time limit passed.

    It is not an ``Exception``: a strategy that handles every error must end too.
    """


_ABANDONED: contextvars.ContextVar[Future[None] | None] = contextvars.ContextVar(
    "jaato_gc_abandoned", default=None
)
"""Done as soon as the work of this context is abandoned; ``None``: it never is."""


class Work(Generic[T]):
    """A function that runs in a thread of its own.

    The side that waits holds all locks, so it can go on at any time: `abandon` ends the work as
    soon as it waits for something itself. A function that never waits is left behind in its daemon
    thread, and its result is dropped.

    Args:
        function: The function. It sees the context variables of the caller.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self.result: Future[T] = Future()
        self.result.set_running_or_notify_cancel()  # only the function ends it
        self._abandoned: Future[None] = Future()
        context = contextvars.copy_context()
        context.run(_ABANDONED.set, self._abandoned)
        arguments = (self._run, function)
        threading.Thread(None, context.run, "jaato-gc", arguments, daemon=True).start()

    def _run(self, function: Callable[[], T]) -> None:
        try:
            self.result.set_result(function())
        except BaseException as error:
            self.result.set_exception(error)

    def abandon(self) -> None:
        """Tells the work that nothing waits for it any more, if it still runs."""
        self._abandoned.set_result(None)


def within(seconds: float | None, function: Callable[[], T]) -> T:
    """Returns the result of a function, or raises what it raises.

    It runs in a thread of its own if there is a time limit, or if the caller can be abandoned.

    Raises:
        DeadlineError: It took longer than ``seconds``.
        AbandonedError: Nothing waits for the caller any more.
    """
    if seconds is None and _ABANDONED.get() is None:
        return function()
    work = Work(function)
    try:
        return result_of(work.result, seconds)
    finally:
        work.abandon()


def result_of(future: "Future[T]", seconds: float | None) -> T:
    """Waits for a future, and returns its result or raises its error.

    Raises:
        DeadlineError: It took longer than ``seconds``.
        AbandonedError: Nothing waits for the caller any more.
    """
    abandoned = _ABANDONED.get()
    awaited: set[Future[Any]] = {future} if abandoned is None else {future, abandoned}
    wait(awaited, seconds, FIRST_COMPLETED)
    if abandoned is not None and abandoned.done():
        raise AbandonedError
    if not future.done():
        raise DeadlineError(f"more than {seconds:g} s")
    return future.result()


def is_failure(error: BaseException) -> bool:
    """Returns whether an error that a plugin raised is a failure of that plugin.

    ``SystemExit`` is: no plugin ends the host's process. An interrupt or a cancellation comes from
    outside and is passed on.
    """
    if isinstance(error, Exception):
        return True
    import asyncio  # here, because it takes long to import

    passed_on = KeyboardInterrupt | GeneratorExit | AbandonedError | asyncio.CancelledError
    return not isinstance(error, passed_on)
