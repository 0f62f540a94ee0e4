"""Worker processes that end when their parent process ends."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any


@contextmanager
def worker_pool(given: Executor | None, workers: int | None) -> Iterator[Executor]:
    """Yields the given executor, which stays open, or a pool of local processes.

    An error in the ``with`` block cancels all pending jobs. No other code may cancel jobs: in
    Python 3.11, the management thread of a pool without workers fails on cancelled jobs.
    """
    if given is not None:
        borrowed = _BorrowedExecutor(given)
        try:
            yield borrowed
        finally:
            borrowed.cancel_jobs()
        return
    # A fork of a program with threads may deadlock.
    context = multiprocessing.get_context("spawn")
    lifeline, parent_end = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(lifeline,)
    )
    try:
        yield pool
    except BaseException:
        parent_end.close()  # ends the workers without waiting for running replays
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        parent_end.close()
        lifeline.close()


class _BorrowedExecutor(Executor):
    """Wraps an executor that stays open, and remembers the jobs submitted through it."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._executor.submit(fn, *args, **kwargs)
        self._futures.append(future)
        return future

    def cancel_jobs(self) -> None:
        for future in self._futures:
            future.cancel()


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Blocks SIGINT while worker processes start.

    A new process inherits the signal mask of its parent, so Ctrl-C can't reach a worker before it
    ignores the signal itself.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(lifeline: Connection) -> None:
    """Makes a worker ignore Ctrl-C, which the parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(lifeline,), daemon=True).start()


def _exit_with_parent(lifeline: Connection) -> None:
    wait([lifeline])  # returns when the parent closes its end or dies
    os._exit(1)  # the result has no reader, and a worker has nothing to clean up
