"""What it costs to analyse a context and to plan, and how that grows with the context.

One run is `compute_roots`, `analyze_pruning_candidates` and `generate_pruning_plan`. An exponent
near 1 means growth in proportion to segments and references. The mark phase alone is timed against
networkx, where that is installed (`pip install networkx`): once as one would write it, by the
descendants of each root, and once by the descendants of one extra node that leads to all roots.

    python benchmarks/mark_and_sweep.py --max 1000000
"""

import argparse
import gc
import importlib
import math
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

import jaato_gc
import jaato_gc_marksweep
from jaato_gc_marksweep import ContextSegment, GCEngine

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MARKED_NODES, MARKED_ROOTS = 100_000, 20
LIMIT_TOKENS, LIMIT_SECONDS = 32_000, 2.0
TOKENS_TO_FREE = 0.25  # of all
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
ENGINE = GCEngine(now=lambda: NOW)

Graph = dict[str, set[str]]
Timings = dict[str, list[float]]


def make_references(size: int, fewest: int = 0) -> Graph:
    """Up to three references each, to some of the fifty segments before."""
    rng = random.Random(size)
    return {
        f"segment-{position}": {
            f"segment-{rng.randrange(max(0, position - 50), position)}"
            for _ in range(rng.randint(fewest, 3) if position else 0)
        }
        for position in range(size)
    }


def make_segments(size: int) -> list[ContextSegment]:
    """Two days of work: twenty tasks one after another, forty files, all types of segments."""
    rng = random.Random(size)
    types = ("log", "note", "code", "message", "decision", "summary")
    return [
        ContextSegment(
            id,
            type=rng.choice(types),
            task_id=f"task-{20 * position // size}",
            file_path=f"src/file_{rng.randrange(40)}.py",
            created_at=NOW - timedelta(hours=48) * (1 - position / size),
            references=references,
            tokens=rng.randrange(12, 53),  # a thousand segments are about 32,000 tokens
        )
        for position, (id, references) in enumerate(make_references(size).items())
    ]


def analyse_and_plan(segments: list[ContextSegment], tokens_to_free: int) -> None:
    """What is timed."""
    roots = ENGINE.compute_roots(segments, current_task="task-3", active_file="src/file_1.py")
    candidates = ENGINE.analyze_pruning_candidates(segments, roots)
    plan = ENGINE.generate_pruning_plan(candidates, tokens_to_free)
    if not plan.is_met:
        raise SystemExit(f"{len(segments)} segments: {plan.reason}")


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    gc.collect()
    # A pass of Python's own collector visits everything alive, here all other sizes too.
    gc.disable()
    start = time.perf_counter()
    function()
    seconds = time.perf_counter() - start
    gc.enable()
    return seconds


def growth_exponent(seconds_by_size: Mapping[int, float]) -> float:
    """Slope of the line through the points on a log-log scale."""
    sizes = [math.log(size) for size in seconds_by_size]
    times = [math.log(seconds) for seconds in seconds_by_size.values()]
    return statistics.linear_regression(sizes, times).slope


def report_growth(largest: int, repeat: int) -> None:
    """Print a line for each size."""
    contexts = {size: make_segments(size) for size in SIZES if size <= largest}
    tokens = {size: sum(each.tokens for each in made) for size, made in contexts.items()}
    gc.freeze()  # the segments stay to the end: the passes between measurements may skip them
    timings: dict[int, list[float]] = {size: [] for size in contexts}
    for _ in range(repeat):  # interleaved, so that a slow moment of the machine hits all
        for size, segments in contexts.items():
            target = int(tokens[size] * TOKENS_TO_FREE)
            timings[size].append(timed(partial(analyse_and_plan, segments, target)))
    print(f"{'segments':>10}{'tokens':>13}{'best ms':>11}{'us/segment':>12}{'spread':>9}")
    for size, seconds in timings.items():
        best = min(seconds)
        print(
            f"{size:10,}{tokens[size]:13,}{best * 1e3:11,.2f}{best / size * 1e6:12,.2f}"
            f"{max(seconds) / best - 1:9.0%}"
        )
    bests = {size: min(seconds) for size, seconds in timings.items()}
    if len(bests) > 1:
        print(f"growth exponent {growth_exponent(bests):.2f}")
    at_limit = min(bests, key=lambda size: abs(tokens[size] - LIMIT_TOKENS))
    print(
        f"the limit for {LIMIT_TOKENS:,} tokens is {LIMIT_SECONDS:g} s: {tokens[at_limit]:,} "
        f"tokens took 1/{LIMIT_SECONDS / bests[at_limit]:,.0f} of it\n"
    )


def report_marking(repeat: int) -> None:
    """Print how marking compares with networkx."""
    try:
        networkx = importlib.import_module("networkx")
    except ImportError:
        print("marking is not compared: networkx is not here (pip install networkx)")
        return
    references = make_references(MARKED_NODES, fewest=1)  # so that most can be reached
    roots = set(list(references)[-MARKED_ROOTS:])
    graph = networkx.DiGraph(references)
    from_one = networkx.DiGraph(references)
    from_one.add_edges_from(("all roots", root) for root in roots)
    ways: dict[str, Callable[[], set[str]]] = {
        "compute_reachability": lambda: ENGINE.compute_reachability(roots, references),
        "descendants of each root": lambda: roots.union(
            *(networkx.descendants(graph, root) for root in roots)
        ),
        "descendants of an extra node": lambda: networkx.descendants(from_one, "all roots"),
    }
    marked = [way() for way in ways.values()]
    if not all(each == marked[0] for each in marked):
        raise SystemExit("networkx and the engine disagree on what is reachable")
    gc.freeze()
    timings: Timings = {name: [] for name in ways}
    for _ in range(repeat):
        for name, way in ways.items():
            timings[name].append(timed(way))
    edges = graph.number_of_edges()
    print(
        f"marking {len(marked[0]):,} of {MARKED_NODES:,} nodes with {edges:,} references from "
        f"{MARKED_ROOTS} roots; networkx {networkx.__version__}"
    )
    fastest = min(timings["compute_reachability"])
    for name, seconds in timings.items():
        best = min(seconds)
        spread = max(seconds) / best - 1
        print(f"{name:30}{best * 1e3:9,.1f} ms{best / fastest:7.1f} x{spread:9.0%}")


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--max", type=int, default=100_000, choices=SIZES, metavar="SEGMENTS")
    parser.add_argument("--repeat", type=int, default=7, metavar="TIMES")
    options = parser.parse_args()

    print("mark and sweep: roots, analysis and a plan that frees a quarter")
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    versions = f"jaato-gc {jaato_gc.__version__}, marksweep {jaato_gc_marksweep.__version__}"
    print(f"{versions}; best of {options.repeat}, spread = slowest over fastest\n")
    report_growth(options.max, options.repeat)
    report_marking(options.repeat)


if __name__ == "__main__":
    main()
