"""Work that may not take too long."""

import contextvars
import threading
from collections.abc import Callable
from typing import Any


class DeadlineError(Exception):
    """Something took longer than it was given."""


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What the work returns or raises, unless it takes too long; then it is left to itself.

    Raises:
        DeadlineError: It took too long.
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
