"""Functions that run at the same time."""

import threading
from collections.abc import Callable


def in_threads(*work: Callable[[], object]) -> None:
    """Runs functions at the same time, and raises the first error of them."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(work))

    def guarded(each: Callable[[], object]) -> None:
        try:
            gate.wait()
            each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
