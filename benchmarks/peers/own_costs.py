"""Measures what only this project is asked for: how its costs grow, and what it counts twice.

    python benchmarks/peers/own_costs.py --largest 10000

Prints JSON; times are CPU seconds. `driver.py` runs it in the environment with the packages of this
repository. It needs no other library, so `nox -s bench` runs it, too.
"""

import argparse
import gc
import json
import random
import time
import timeit
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from contender import TARGET, WINDOW
from contenders import jaato_gc_budget as budget_contender
from contenders.jaato_gc_session import NEVER_FULL, message_of
from histories import MESSAGES_A_TURN, MOST_PRESERVABLE, Plain, make_history, make_turns

import jaato_gc_budget
from jaato_gc import EstimateCounter, GCSession, estimate_tokens
from jaato_gc_marksweep import ContextSegment, GCEngine

SIZES = (1_000, 10_000, 100_000)
"""Messages."""
TURNS = 20_000
"""The journal is full after 200 collections, which is within these turns."""
BLOCK = 1_000
COUNTED_TURNS = 1_000
CALLS = 2_000
SEGMENTS = 1_000
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class CountsCalls(EstimateCounter):
    """An estimate that remembers how often each text was counted."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def count_text(self, text: str) -> int:
        """Returns the estimated tokens of a text."""
        self.calls[text] += 1
        return super().count_text(text)


def new_session(context_limit: int, counter: EstimateCounter | None = None) -> GCSession:
    """Returns an empty session with gc_budget."""
    session = GCSession(context_limit=context_limit, counter=counter or EstimateCounter())
    session.set_gc_plugin(jaato_gc_budget.create_plugin())
    return session


def run_turns(session: GCSession, turns: Sequence[Sequence[Plain]]) -> None:
    """Runs turns as a host with its own loop does."""
    for request, *rest in turns:
        session.append(message_of(request))
        session.before_send()
        session.report_usage(session.budget.counted_tokens())
        for plain in rest:
            session.append(message_of(plain))
        session.after_turn()


def time_checks(sizes: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """Seconds of the checks of a turn in a session that is not full."""
    found = []
    for size in sizes:
        session = new_session(NEVER_FULL)
        for turn in make_turns(size // MESSAGES_A_TURN, estimate_tokens):
            for plain in turn:
                session.append(message_of(plain))
        row: dict[str, float] = {"messages": size}
        for method in ("after_turn", "before_send"):
            timer = timeit.Timer(getattr(session, method), timer=time.process_time)
            row[method] = min(timer.repeat(10 * rounds, CALLS)) / CALLS
        found.append(row)
    return found


def time_collections(sizes: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """Seconds of one collection in a session whose messages are counted."""
    contender = budget_contender.make()
    found = []
    for size in sizes:
        history = make_history(size, estimate_tokens)
        target = int(TARGET * sum(plain.tokens for plain in history))
        seconds = []
        for _ in range(rounds):
            collect = contender.collect(history, target, warm=True)
            assert collect
            seconds.append(timed(collect))
        found.append({"messages": size, "collection": min(seconds)})
    return found


def time_turns(turns: int, rounds: int) -> dict[str, float]:
    """Seconds of a turn early in a long session and at its end, collections included.

    The first turns fill the window, so early are those after them.
    """
    made = make_turns(turns, estimate_tokens, most_preservable=MOST_PRESERVABLE)
    block = min(BLOCK, turns // 3)
    early, late = [], []
    for _ in range(rounds):
        session = new_session(WINDOW)
        run_turns(session, made[:block])
        early.append(timed(partial(run_turns, session, made[block : 2 * block])) / block)
        run_turns(session, made[2 * block : -block])
        late.append(timed(partial(run_turns, session, made[-block:])) / block)
    return {
        "turns": turns,
        "collections": session.collection_count,
        "early": min(early),
        "late": min(late),
    }


def count_texts(turns: int) -> dict[str, int]:
    """The texts that a session with collections counts, and how many of them again.

    ``messages`` are the texts of the messages of the host, ``others`` those that collections write.
    """
    made = make_turns(turns, estimate_tokens, most_preservable=MOST_PRESERVABLE)
    counters = []
    for context_limit in (NEVER_FULL, WINDOW):
        counters.append(CountsCalls())
        session = new_session(context_limit, counters[-1])
        run_turns(session, made)
    expected, counted = (counter.calls for counter in counters)
    others = counted - expected
    new = {text for text in others if text not in expected}
    return {
        "collections": session.collection_count,
        "messages": expected.total(),
        "messages_again": sum(others[text] for text in others.keys() - new),
        "others": sum(others[text] for text in new),
        "others_again": sum(others[text] - 1 for text in new),
    }


def time_analysis(rounds: int) -> dict[str, float]:
    """Seconds that the engine of jaato-gc-marksweep takes to analyse segments and to plan."""
    engine = GCEngine(now=lambda: NOW)
    segments = make_segments(SEGMENTS)
    tokens = sum(segment.count_tokens() for segment in segments)

    def analyse_and_plan() -> None:
        roots = engine.compute_roots(segments, current_task="task-3", active_file="src/file_1.py")
        candidates = engine.analyze_pruning_candidates(segments, roots)
        engine.generate_pruning_plan(candidates, tokens // 4)

    return {"tokens": tokens, "seconds": min(timed(analyse_and_plan) for _ in range(10 * rounds))}


def make_segments(size: int) -> list[ContextSegment]:
    """Two days of work in twenty tasks and forty files, with references to earlier segments."""
    random_ = random.Random(size)
    types = ("log", "note", "code", "message", "decision", "summary")
    return [
        ContextSegment(
            f"segment-{position}",
            "",
            type=random_.choice(types),
            task_id=f"task-{20 * position // size}",
            file_path=f"src/file_{random_.randrange(40)}.py",
            created_at=NOW - timedelta(hours=48) * (1 - position / size),
            references={
                f"segment-{random_.randrange(max(0, position - 50), position)}"
                for _ in range(random_.randint(0, 3) if position else 0)
            },
            tokens=random_.randrange(12, 53),  # 32 on average
        )
        for position in range(size)
    ]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds that a call takes. Python's garbage collector skips what existed before."""
    gc.collect()
    gc.freeze()
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    gc.unfreeze()
    return seconds


def main() -> None:
    """Measures everything and prints it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="MESSAGES")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.largest]
    measured: dict[str, Any] = {
        "checks": time_checks(sizes, options.rounds),
        "collections": time_collections(sizes, options.rounds),
        "turns": time_turns(min(TURNS, options.largest), options.rounds),
        "texts": count_texts(COUNTED_TURNS),
        "analysis": time_analysis(options.rounds),
    }
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
