"""Threads that use one session at the same time."""

import contextlib
import random
import threading
import traceback
from collections.abc import Callable, Iterator

from soak.host import Host


def together(host: Host, threads: int, steps: int) -> None:
    """Uses a session in several threads at once."""
    gate = threading.Barrier(threads)

    def work(number: int, seed: float) -> None:
        chance = random.Random(seed)
        gate.wait()
        for _ in range(steps):
            if number % 3 == 0:
                host.add_turn()
            if number % 3 < 2 and not host.setup.reports:
                host.send()
            else:
                host.step(chance)

    run_threads(host, [(work, number) for number in range(threads)])


def run_threads(host: Host, work: list[tuple[Callable[[int, float], None], int]]) -> None:
    """Runs functions in threads, and notes every error that escapes."""

    def run(function: Callable[[int, float], None], number: int, seed: float) -> None:
        with noting_errors(host):
            function(number, seed)

    seeds = [host.setup.chance.random() for _ in work]
    started = [
        threading.Thread(target=run, args=(*each, seed), name="soak")
        for each, seed in zip(work, seeds, strict=True)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


@contextlib.contextmanager
def noting_errors(host: Host) -> Iterator[None]:
    """Notes an error as a finding: those that are documented were handled before."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        host.witness.find(f"an error escaped: {traceback.format_exc()}")
