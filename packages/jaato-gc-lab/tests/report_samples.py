"""Synthetic reports for tests of the report and its charts."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaato_gc_lab._comparison import Cell, CellResult, Comparison
from jaato_gc_lab._prices import load_prices
from jaato_gc_lab._reports import Loss, ReplayedCollection, ReplayedRequest, ReplayReport

FIXED = {"system": 900, "tools": 600}
GROWTH = {"user": 0.07, "model": 0.12, "thoughts": 0.06, "calls": 0.15, "results": 0.6}


@dataclass(frozen=True)
class Habit:
    """The simulated behaviour of a strategy.

    Args:
        cleared: Fraction of the freed tokens taken from tool results; the rest is taken from all
            sources.
        summary: Size of the summary, as a fraction of the freed tokens.
        target: Usage after a collection, as a fraction of the window.
        loss_rate: Probability that a collection removes a name that is used later.
        reasons: Removal reasons with their fractions.
    """

    cleared: float
    summary: float
    target: float
    loss_rate: float
    reasons: dict[str, float]


HABITS = {
    "truncate": Habit(0.2, 0.0, 0.6, 0.9, {"truncated": 1.0}),
    "summarize": Habit(0.2, 0.15, 0.45, 0.6, {"summarized": 1.0}),
    "hybrid": Habit(0.3, 0.06, 0.5, 0.6, {"ancient_truncated": 0.6, "middle_summarized": 0.4}),
    "budget": Habit(0.9, 0.0, 0.58, 0.25, {"ephemeral": 0.7, "cleared_result": 0.3}),
    "marksweep": Habit(0.95, 0.0, 0.5, 0.15, {"cleared_result": 0.8, "unreachable": 0.2}),
}
STRATEGIES = ("none", *HABITS)
PRICE = load_prices().of()
PRICES = {PRICE.models[0]: PRICE}


def sample_report(
    strategy: str = "budget",
    limit: int = 32_000,
    transcript: str = "fix-login.jsonl",
    requests: int = 160,
) -> ReplayReport:
    """Returns a simulated report. All strategies and windows see the same transcript."""
    chance = random.Random(transcript)
    report = ReplayReport(transcript, strategy, limit, 80.0, 60.0, names_used=requests * 2)
    sizes = dict(FIXED) | dict.fromkeys((*GROWTH, "synthetic"), 0)
    turn, cached = 0, 0
    for position in range(requests):
        turn += position % 9 == 0
        grown = round(chance.lognormvariate(6.2, 0.8))
        output = 40 + grown // 4
        for source, share in GROWTH.items():
            sizes[source] += round(share * grown)
        total = sum(sizes.values())
        if strategy != "none" and total >= 0.8 * limit:
            after = _collect(report, HABITS[strategy], sizes, position, turn)
            cached = min(cached, after // 3)
            total = after
        report.requests.append(
            ReplayedRequest(turn, total, dict(sizes), min(cached, total), output, total <= limit)
        )
        report.overflows += total > limit
        cached = total
    report.edits, report.context_used = requests // 4, requests
    report.names_lost = report.context_lost = len(report.losses)
    if report.refused_at is not None:  # the run is over there
        report.context_lost = round(requests * (1 - report.played))
    report.seconds = sum(collection.seconds for collection in report.collections)
    report.rereads = len(report.losses) // 2
    report.reread_tokens = report.rereads * 700
    report.lookup_cost = report.rereads * 0.004
    report.cost = PRICE.cost(report.requests)
    report.model = PRICE.models[0]
    report.counter = "estimate"
    report.distribution = "" if strategy == "none" else f"jaato-gc-{strategy} 0.1.0"
    return report


def sample_grid(
    transcripts: Mapping[str, int],
    context_limits: Iterable[int] = (8_000, 32_000, 128_000),
    strategies: Iterable[str] = STRATEGIES,
) -> Comparison:
    """Returns a simulated comparison.

    Args:
        transcripts: Number of requests by transcript name.
        context_limits: Window sizes in tokens.
        strategies: Names of the strategies.
    """
    grid = Comparison(list(strategies), list(context_limits))
    for transcript, requests in transcripts.items():
        for limit in grid.context_limits:
            for strategy in grid.strategies:
                cell = Cell(transcript, 0, transcript, strategy, limit)
                report = sample_report(strategy, limit, transcript, requests)
                grid.results.append(CellResult(cell, report))
    return grid


def _collect(
    report: ReplayReport, habit: Habit, sizes: dict[str, int], position: int, turn: int
) -> int:
    before = sum(sizes.values())
    before_by_source = dict(sizes)
    excess = before - round(report.context_limit * habit.target)
    cleared = min(round(excess * habit.cleared), sizes["results"])
    sizes["results"] -= cleared
    rest = min(excess - cleared, sum(sizes[source] for source in GROWTH))
    total = sum(sizes[source] for source in GROWTH) or 1
    for source in GROWTH:
        sizes[source] -= sizes[source] * rest // total
    sizes["synthetic"] = round(
        min(sizes["synthetic"] + habit.summary * excess, 0.1 * report.context_limit)
    )
    after = sum(sizes.values())
    number = len(report.collections)
    report.collections.append(
        ReplayedCollection(
            request=position,
            turn=turn,
            trigger="threshold" if number % 4 else "pre_message",
            outcome="collected",
            tokens_before=before,
            tokens_after=after,
            freed_by_reason={
                reason: round(share * (before - after)) for reason, share in habit.reasons.items()
            },
            rewritten_tokens=after * 2 // 3,
            seconds=0.002 + before * 4e-8,
            before_by_source=before_by_source,
            after_by_source=dict(sizes),
            freed_by_tool={"read_file": cleared * 2 // 3, "run_tests": cleared // 3},
        )
    )
    if random.Random(f"{report.transcript}{report.strategy}{number}").random() < habit.loss_rate:
        name = f"src/module_{number}/handler.py"
        report.losses.append(Loss(name, position + 3, number))
    return after
