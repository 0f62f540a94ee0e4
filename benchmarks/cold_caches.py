"""Costs of recorded runs if collections also run while the prompt cache is cold.

Long recorded runs are replayed with gc_marksweep at the times of the recording. A request that
comes more than five minutes after the last one finds the provider's prompt cache cold.

    python benchmarks/cold_caches.py
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from transcripts import folder

from jaato_gc import GCConfig, count_tokens
from jaato_gc_formats import Conversation, FormatError, load
from jaato_gc_lab import replay

CACHE_SECONDS = 300.0
MODEL = "claude-sonnet-5-5"
"""The model whose prices apply to all runs, so that expensive models have no more weight."""
SHORTEST_RUN = 60_000
"""Tokens: shorter runs are left out."""
WINDOWS = (64_000, 128_000)
SETTINGS = ((None, None), (40, 30), (50, 30), (50, 40), (60, 40), (60, 50), (70, 40))
"""Pairs of ``cold_percent`` and ``cold_target_percent``; ``None``: caches are not considered."""


class Figures(NamedTuple):
    """What one run costs, and what it loses."""

    cost: float
    cold: int
    collections: int
    blind_edits: int
    edits: int
    context_lost: int
    context_used: int


def long_runs() -> Iterator[Conversation]:
    """Yields the long runs with recorded times."""
    for path in sorted(folder().rglob("*.jsonl.gz")):
        try:
            conversations = load(path, repair=True)
        except FormatError:
            continue
        for each in conversations:
            if each.moments and count_tokens(each.messages) > SHORTEST_RUN:
                yield each


def measure(run: Conversation, window: int, config: GCConfig) -> Figures:
    """Replays one run."""
    report = replay(run, "gc_marksweep", context_limit=window, config=config, model=MODEL)
    return Figures(
        report.cost + report.lookup_cost,
        sum(each.trigger == "cache_cold" for each in report.collections),
        len(report.collections),
        len(report.blind_edits),
        report.edits,
        report.context_lost,
        report.context_used,
    )


def main() -> None:
    """Prints one table."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    runs = list(long_runs())
    print(f"{len(runs)} runs\n")
    if not runs:
        return
    print(
        "| window | cold_percent | cold_target_percent | cost | collections | blind edits |", end=""
    )
    print(" lost context |\n|--:|--:|--:|--:|--:|--:|--:|")
    with ProcessPoolExecutor() as pool:
        for window in WINDOWS:
            most = 0.0
            for percent, target in SETTINGS:
                config = GCConfig()
                if percent and target:
                    config = GCConfig(
                        cache_ttl_seconds=CACHE_SECONDS,
                        cold_percent=percent,
                        cold_target_percent=target,
                    )
                found = pool.map(partial(measure, window=window, config=config), runs)
                total = Figures(*map(sum, zip(*found, strict=True)))
                most = most or total.cost
                print(
                    f"| {window:,} | {percent or 'off'} | {target or ''} |"
                    f" {total.cost / most:.0%} | {total.collections} ({total.cold} cold) |"
                    f" {total.blind_edits / total.edits:.1%} |"
                    f" {total.context_lost / total.context_used:.1%} |"
                )


if __name__ == "__main__":
    main()
