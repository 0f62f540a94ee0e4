"""Processes that do the work of another one, and never outlive it."""

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
    """The executor that was given, left open; or processes that end with the one that waits.

    Where it is left by an error, jobs that have not begun never will. Nobody else may cancel them:
    in Python 3.11, the thread of a pool whose workers are gone stumbles over cancelled jobs.
    """
    if given is not None:
        lent = _Lent(given)
        try:
            yield lent
        finally:
            lent.cancel_jobs()
        return
    # Processes that start afresh: a fork of a program with threads may hang.
    context = multiprocessing.get_context("spawn")
    lifeline, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_hold_on_to, initargs=(lifeline,)
    )
    try:
        yield pool
    except BaseException:
        held.close()  # nobody waits for replays that have begun
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        held.close()
        lifeline.close()


class _Lent(Executor):
    """Somebody else's executor, which stays open; it is known what was submitted here."""

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
def interrupts_held_back() -> Iterator[None]:
    """Start workers that no Ctrl-C reaches, not even before they can ignore it themselves.

    A process that starts holds back what the one that starts it does.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hold_on_to(lifeline: Connection) -> None:
    """Ctrl-C is for the program that waits: it stops the workers itself. If it dies, so do they."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    wait([lifeline])  # until its other end is closed, or the process that holds it is gone
    os._exit(1)  # nobody is left to tell, and there is nothing to tidy up
