"""What one turn costs a session, at the start of a long run and at its end.

A turn is what a host with its own loop does: append the request, `before_send`, `report_usage`,
append the answer, `after_turn`. "counted" are messages whose tokens are known already, so that
what remains is bookkeeping; "fresh" ones are counted by the session, with its estimate.

`before_send` hands out a list of its own, and copying one takes as long as it is: nothing beside
what it takes to send it, but more than the rest of a turn where a history is never collected. So
that this does not hide the rest, that is shown by itself, too. (Where collections happen, they do
so in `before_send` or in `after_turn`, as it comes: only whole turns can be compared there.)

    python benchmarks/growth_session.py --turns 100000
"""

import argparse
import gc
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass

import jaato_gc
import jaato_gc_truncate
from jaato_gc import EstimateCounter, GCSession, Message, PluginRegistry, Role, count_tokens

BLOCKS = 10
NEVER_FULL = 10**9
NOW_AND_THEN = 20_000
QUESTION = "Request {0}: why does job {0} fail when the file is locked?"
ANSWER = "Job {} opens the file before the lock is held. Swap the two lines and run it again."


@dataclass
class Block:
    """The figures of some turns in a row, in seconds each."""

    turn: float
    rest: float


def make_turns(turns: int, *, counted: bool) -> list[tuple[Message, Message]]:
    """Requests with their answers, whose tokens are known already or not."""
    pairs = [
        (
            Message.from_text(Role.USER, QUESTION.format(turn)),
            Message.from_text(Role.MODEL, ANSWER.format(turn)),
        )
        for turn in range(turns)
    ]
    if counted:
        for pair in pairs:
            count_tokens(pair, EstimateCounter())
    return pairs


def make_session(context_limit: int) -> GCSession:
    """An empty session that would collect with gc_truncate."""
    session = GCSession(
        context_limit=context_limit,
        counter=EstimateCounter(),
        registry=PluginRegistry(load_installed=False),
    )
    session.set_gc_plugin(jaato_gc_truncate.create_plugin())
    return session


def run_turns(session: GCSession, turns: Iterable[tuple[Message, Message]]) -> float:
    """The turns of a host with its own loop; returns the seconds spent in `before_send`."""
    sending = 0.0
    for question, answer in turns:
        session.append(question)
        start = time.perf_counter()
        session.before_send()
        sending += time.perf_counter() - start
        session.report_usage(session.budget.counted_tokens(), 20)
        session.append(answer)
        session.after_turn()
    return sending


def time_blocks(context_limit: int, turns: int, *, counted: bool) -> tuple[list[Block], int]:
    """A whole run, in blocks, and the number of its collections."""
    session = make_session(context_limit)
    pairs = make_turns(turns, counted=counted)
    size = turns // BLOCKS
    blocks = []
    gc.collect()
    # A pass of Python's own collector visits all the messages that wait for their turn, too.
    gc.disable()
    for first in range(0, size * BLOCKS, size):
        start = time.perf_counter()
        sending = run_turns(session, pairs[first : first + size])
        seconds = time.perf_counter() - start
        blocks.append(Block(seconds / size, (seconds - sending) / size))
    gc.enable()
    return blocks, session.collection_count


def best_of(runs: list[list[Block]]) -> list[Block]:
    """Each block at its fastest."""
    return [
        Block(min(block.turn for block in same), min(block.rest for block in same))
        for same in zip(*runs, strict=True)
    ]


def time_check(messages: int, repeat: int) -> float:
    """Seconds that `after_turn` takes far below every trigger."""
    session = make_session(NEVER_FULL)
    run_turns(session, make_turns(messages // 2, counted=True))
    calls = range(20_000)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in calls:
            session.after_turn()
        times.append((time.perf_counter() - start) / len(calls))
    return min(times)


def figures(first: float, last: float) -> str:
    """Two times in microseconds, and how one compares to the other."""
    return f"{first * 1e6:9.1f}{last * 1e6:9.1f}{last / first:7.2f}"


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3, metavar="TIMES")
    options = parser.parse_args()
    if options.turns < BLOCKS:
        parser.error(f"--turns must be {BLOCKS} or more")

    print(f"A session of {options.turns:,} turns: the first tenth of them, and the last")
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    versions = f"jaato-gc {jaato_gc.__version__}, truncate {jaato_gc_truncate.__version__}"
    print(f"{versions}; best of {options.repeat}, µs per turn\n")
    print(f"{'':35}{'whole turn':>25}{'without before_send':>25}")
    columns = f"{'first':>9}{'last':>9}{'ratio':>7}"
    print(f"{'window':13}{'messages':10}{'collections':>12}{columns}{columns}")
    for window, context_limit in (("now and then", NOW_AND_THEN), ("never full", NEVER_FULL)):
        for kind in ("counted", "fresh"):
            runs = [
                time_blocks(context_limit, options.turns, counted=kind == "counted")
                for _ in range(options.repeat)
            ]
            blocks = best_of([run for run, _ in runs])
            first, last = blocks[0], blocks[-1]
            print(
                f"{window:13}{kind:10}{runs[0][1]:12,}"
                f"{figures(first.turn, last.turn)}{figures(first.rest, last.rest)}"
            )

    print("\nafter_turn, far below every trigger")
    for messages in (100, 100_000):
        seconds = time_check(messages, options.repeat)
        print(f"{messages:10,} messages{seconds * 1e9:9.0f} ns")


if __name__ == "__main__":
    main()
