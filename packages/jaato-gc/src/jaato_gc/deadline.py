"""Running a function with a time limit."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class DeadlineError(Exception):
    """A function took longer than its time limit."""


def within(seconds: float | None, work: Callable[[], Any]) -> Any:
    """Returns the result of a function that runs in a thread, or raises what it raises.

    A function that takes too long is left running in its daemon thread, and its result is dropped.
    Without a time limit, the function is simply called.

    Raises:
        DeadlineError: It took longer than ``seconds``.
    """
    if seconds is None:
        return work()
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(run,), name="jaato-gc", daemon=True)
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        raise DeadlineError(f"more than {seconds:g} s")
    return result.result()
