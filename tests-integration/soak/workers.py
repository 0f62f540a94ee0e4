"""Runs rounds in several processes, watches them, and prints what they found."""

import faulthandler
import itertools
import logging
import multiprocessing
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from soak.rounds import KILLED, LOOP, STRICT, Tally, run_round

HANGS_AFTER = 120.0
"""The seconds after which a round hangs. Its threads are printed, and its process ends."""
KILLS_EVERY = 40
"""A process is killed in one of so many rounds."""
LOOPS_EVERY = 10
"""One round of so many has a client of a provider."""
PRINTS_EVERY = 30.0
"""The seconds between two lines of progress."""


def run_rounds(seed: str, minutes: float, workers: int, strict_requests: int) -> Tally:
    """Runs rounds in several processes, for some minutes and so many requests to strict providers.

    Findings are printed at once.
    """
    started = printed = time.monotonic()
    tally = Tally()
    rounds = (f"{seed}/{number}{kind_of(number)}" for number in itertools.count())
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, be_quiet) as pool:
        running: dict[Future[Tally], str] = {}
        while True:
            now = time.monotonic()
            is_due = now < started + minutes * 60 or tally.strict_requests < strict_requests
            while len(running) < 2 * workers and is_due:
                name = next(rounds)
                running[pool.submit(watched, name)] = name
            if not running:
                return tally
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                try:
                    done = future.result()
                except BrokenProcessPool:
                    names = [name, *running.values()]
                    show(f"a process ended in one of these rounds, it hung or crashed: {names}")
                    raise
                tally.add(done)
                show(*done.findings)
            if now > printed + PRINTS_EVERY:
                printed = now
                show(f"{now - started:.0f} s: {tally}")


def kind_of(number: int) -> str:
    """Returns the end of the seed of a round: most are sessions, or talk to a strict provider."""
    if number % KILLS_EVERY == KILLS_EVERY // 2:
        return f"/{KILLED}"
    if number % LOOPS_EVERY == 1:
        return f"/{LOOP}"
    return f"/{STRICT}" if number % 2 else ""


def watched(seed: str) -> Tally:
    """Runs a round. If it hangs, its threads are printed and the process ends."""
    faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
    try:
        return run_round(seed)
    except Exception:  # a process that was to be killed ended by itself, say
        return Tally(findings=[f"{seed}: {traceback.format_exc()}"])
    finally:
        faulthandler.cancel_dump_traceback_later()


def be_quiet() -> None:
    """Hides the warnings about hostile strategies."""
    logging.getLogger("jaato_gc").setLevel(logging.CRITICAL)


def show(*lines: str) -> None:
    """Prints lines at once."""
    for line in lines:
        print(line, flush=True)
