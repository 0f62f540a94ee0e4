"""Running a function with a time limit."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any


class DeadlineError(Exception):
    """A function took longer than its time limit."""


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """Returns the result of a function that runs in a thread, or raises what it raises.

    A function that takes too long is left running in its daemon thread, and its result is dropped.

    Raises:
        DeadlineError: It took longer than ``seconds``.
    """
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            errors.append(error)

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(run,), name="jaato-gc", daemon=True)
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        raise DeadlineError(f"more than {seconds:g} s")
    if errors:
        raise errors[0]
    return outcome[0]
