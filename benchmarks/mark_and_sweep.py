"""What it costs to analyse a context and to plan, and how that grows with the context.

One run is `compute_roots`, `analyze_pruning_candidates` and `generate_pruning_plan`. An exponent
near 1 means growth in proportion to segments and references.

The mark phase alone is timed against networkx, where that is installed (`pip install networkx`):
the same references, the same roots, and the ids of all that can be reached. networkx starts from
one extra node that leads to all roots, or from all roots at once where it can; of its ways the
fastest counts. Both are timed with their adjacency at hand (ids to ids here, a `DiGraph` there),
and from the segments as they are, with the adjacency still to be made.

    python benchmarks/mark_and_sweep.py --max 1000000 --json figures.json
"""

import argparse
import gc
import importlib
import itertools
import json
import math
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jaato_gc
import jaato_gc_marksweep
from jaato_gc_marksweep import ContextSegment, GCEngine
from jaato_gc_marksweep._reachability import collect_references  # what the engine itself uses

SIZES = (1_000, 10_000, 100_000, 1_000_000)
RUNS_OF_THE_SMALLEST = 20  # each round: the best of them counts, as for all that is soon over
LIMIT_TOKENS, LIMIT_SECONDS = 32_000, 2.0
TOKENS_TO_FREE = 0.25  # of all
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
ENGINE = GCEngine(now=lambda: NOW)
EXTRA_NODE = "leads to all roots"

Ways = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Timing:
    """The best of several rounds, and by how much the slowest took longer."""

    seconds: float
    spread: float

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:12,.2f} ms{self.spread:8.0%}"


# --- the work ---


def make_segments(size: int) -> list[ContextSegment]:
    """Two days of work: twenty tasks one after another, forty files, all types of segments.

    Each has up to three references, to some of the fifty segments before.
    """
    rng = random.Random(size)
    types = ("log", "note", "code", "message", "decision", "summary")
    return [
        ContextSegment(
            f"segment-{position}",
            "",
            type=rng.choice(types),
            task_id=f"task-{20 * position // size}",
            file_path=f"src/file_{rng.randrange(40)}.py",
            created_at=NOW - timedelta(hours=48) * (1 - (position + rng.random()) / size),
            references={
                f"segment-{rng.randrange(max(0, position - 50), position)}"
                for _ in range(rng.randint(0, 3) if position else 0)
            },
            tokens=rng.randrange(12, 53),  # a thousand segments are about 32,000 tokens
        )
        for position in range(size)
    ]


def find_roots(segments: Sequence[ContextSegment]) -> set[str]:
    """One task, one file, and the latest messages and decisions: about one segment in thirteen."""
    return ENGINE.compute_roots(segments, current_task="task-3", active_file="src/file_1.py")


def analyse_and_plan(segments: Sequence[ContextSegment], tokens_to_free: int) -> None:
    """What is timed."""
    candidates = ENGINE.analyze_pruning_candidates(segments, find_roots(segments))
    plan = ENGINE.generate_pruning_plan(candidates, tokens_to_free)
    if not plan.target_met:
        raise SystemExit(f"{len(segments)} segments: {plan.reason}")


class Networkx:
    """The same by networkx."""

    def __init__(self, networkx: Any) -> None:
        self.version = networkx.__version__
        self._networkx = networkx

    def make_graph(self, segments: Sequence[ContextSegment], roots: Collection[str]) -> Any:
        """The adjacency as networkx takes it, made in the way that is fastest there."""
        graph = self._networkx.DiGraph()
        graph.add_edges_from(
            (segment.segment_id, target)
            for segment in segments
            for target in segment.referenced_ids()
        )
        graph.add_edges_from((EXTRA_NODE, root) for root in roots)
        return graph

    def ways_to_mark(self, graph: Any, roots: Collection[str]) -> dict[str, Callable[[], set[str]]]:
        """Those that its documentation offers, but for the descendants of one root at a time."""
        networkx = self._networkx
        return {
            "descendants": lambda: networkx.descendants(graph, EXTRA_NODE),
            "single_source_shortest_path_length": lambda: set(
                networkx.single_source_shortest_path_length(graph, EXTRA_NODE)
            ),
            "bfs_layers": lambda: set(
                itertools.chain.from_iterable(networkx.bfs_layers(graph, roots))
            ),
        }


# --- timing ---


def time_all(ways: Ways, rounds: int, runs: int = 1) -> dict[str, Timing]:
    """Time some calls in turn, so that a slow moment of the machine hits all."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(min(_timed(way, runs)))
    return {
        name: Timing(min(of_rounds), max(of_rounds) / min(of_rounds) - 1)
        for name, of_rounds in seconds.items()
    }


def _timed(call: Callable[[], object], runs: int) -> list[float]:
    gc.collect()
    # A pass of Python's own collector visits everything alive, here all other sizes too.
    gc.disable()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    gc.enable()
    return seconds


def growth_exponent(seconds_by_size: Mapping[int, float]) -> float:
    """Slope of the line through the points on a log-log scale."""
    sizes = [math.log(size) for size in seconds_by_size]
    times = [math.log(seconds) for seconds in seconds_by_size.values()]
    return statistics.linear_regression(sizes, times).slope


# --- one size ---


def measure(size: int, rounds: int, networkx: Networkx | None) -> dict[str, Any]:
    """Time all there is to time at one size, and print it."""
    runs = max(1, RUNS_OF_THE_SMALLEST * SIZES[0] // size)
    segments = make_segments(size)
    tokens = sum(segment.count_tokens() for segment in segments)
    roots = find_roots(segments)
    references = collect_references(segments)
    marked = ENGINE.compute_reachability(roots, references)
    ways: dict[str, Callable[[], object]] = {
        "analyse and plan": lambda: analyse_and_plan(segments, int(tokens * TOKENS_TO_FREE)),
        "mark": lambda: ENGINE.compute_reachability(roots, references),
    }
    theirs: dict[str, Callable[[], set[str]]] = {}
    if networkx:
        theirs = networkx.ways_to_mark(networkx.make_graph(segments, roots), roots)
        for name, way in theirs.items():
            if way() - {EXTRA_NODE} != marked:
                raise SystemExit(f"networkx and the engine disagree: {name}, {size} segments")
    gc.freeze()  # what is here stays to the end: the passes between measurements may skip it
    timings = time_all({**ways, **theirs}, rounds, runs)
    fastest = min(theirs, key=lambda name: timings[name].seconds, default="")
    from_segments: dict[str, Callable[[], object]] = {
        "mark": lambda: ENGINE.compute_reachability(roots, collect_references(segments))
    }
    if networkx:
        from_segments[fastest] = lambda: networkx.ways_to_mark(
            networkx.make_graph(segments, roots), roots
        )[fastest]()
    timings_from_segments = time_all(from_segments, rounds, runs)
    gc.unfreeze()

    edges = sum(map(len, references.values()))
    print(
        f"\n{size:,} segments, {tokens:,} tokens, {edges:,} references; "
        f"{len(roots):,} roots lead to {len(marked):,}"
    )
    _print_timings(timings, theirs)
    print("  from segments, the adjacency still to be made:")
    _print_timings(timings_from_segments, theirs)
    return {
        "segments": size,
        "tokens": tokens,
        "analyse_and_plan_seconds": timings["analyse and plan"].seconds,
        "mark_seconds": timings["mark"].seconds,
        "mark_from_segments_seconds": timings_from_segments["mark"].seconds,
        "networkx_seconds": timings[fastest].seconds if networkx else None,
        "networkx_from_segments_seconds": (
            timings_from_segments[fastest].seconds if networkx else None
        ),
        "networkx_way": fastest or None,
        "spread": timings["analyse and plan"].spread,
    }


def _print_timings(timings: Mapping[str, Timing], theirs: Collection[str]) -> None:
    for name, timing in timings.items():
        ratio = timing.seconds / timings["mark"].seconds
        beside = f"{ratio:8.1f} x as long as mark" if name in theirs else ""
        print(f"  {name:36}{timing}{beside}")


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--max", type=int, default=100_000, choices=SIZES, metavar="SEGMENTS")
    parser.add_argument("--repeat", type=int, default=7, metavar="ROUNDS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    options = parser.parse_args()

    networkx = None
    versions = f"jaato-gc {jaato_gc.__version__}, marksweep {jaato_gc_marksweep.__version__}"
    try:
        networkx = Networkx(importlib.import_module("networkx"))
        versions += f", networkx {networkx.version}"
    except ImportError:
        versions += "; marking is not compared: networkx is not here (pip install networkx)"
    print("mark and sweep: roots, analysis and a plan that frees a quarter; marking alone")
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{versions}\nbest of {options.repeat} rounds (3 of a million segments at most), and the")
    print("slowest round over the fastest")

    sizes = [size for size in SIZES if size <= options.max]
    figures = []
    for size in sizes:
        # A million take minutes a round.
        rounds = min(3, options.repeat) if size == SIZES[-1] else options.repeat
        figures.append(measure(size, rounds, networkx))

    print()
    for name in ("analyse_and_plan_seconds", "mark_seconds", "networkx_seconds"):
        by_size = {each["segments"]: each[name] for each in figures if each[name]}
        if len(by_size) > 1:
            what = name.removesuffix("_seconds").replace("_", " ")
            print(f"{what}: growth exponent {growth_exponent(by_size):.2f}")
    at_limit = min(figures, key=lambda each: abs(each["tokens"] - LIMIT_TOKENS))
    share = LIMIT_SECONDS / at_limit["analyse_and_plan_seconds"]
    print(
        f"the limit for {LIMIT_TOKENS:,} tokens is {LIMIT_SECONDS:g} s: "
        f"{at_limit['tokens']:,} tokens took 1/{share:,.0f} of it"
    )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
