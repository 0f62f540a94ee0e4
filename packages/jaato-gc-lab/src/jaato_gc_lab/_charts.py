"""Charts of one run: window usage with its collections, and cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaato_gc_lab._axes import (
    HEADROOM,
    LABEL_HEIGHT,
    Tick,
    from_top,
    last_request,
    request_ticks,
    usage_points,
)
from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._prices import Price
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import outline
from jaato_gc_lab._steps import MAIN_MARKS, MARKS, Mark, marks_of

MAX_WINDOWS = 2
"""Maximum height of a chart, in windows. Requests above it are cut off."""
MIN_WIDTH = 0.3
"""Minimum width of a visible mark, in percent of the chart's width."""


@dataclass(frozen=True, slots=True)
class UsagePanel:
    """The requests and collections of one strategy."""

    report: ReplayReport
    colour: int
    path: str
    marks: list[Mark]
    misfits: list[tuple[float, float]]
    """Start and width of each range of requests that did not fit."""


@dataclass(frozen=True, slots=True)
class UsageChart:
    """Window usage of one transcript, with one panel per strategy on a common scale.

    Args:
        transcript: Name of the transcript.
        context_limit: Window size in tokens.
        panels: One panel per strategy that collects.
        baseline: The run without collection.
        baseline_path: Path data of the baseline, drawn in every panel.
        window: Position of the window's limit.
        threshold: Position of the threshold.
        target: Position of the target.
        requests: Ticks of the request axis.
    """

    transcript: str
    context_limit: int
    panels: list[UsagePanel]
    baseline: ReplayReport | None
    baseline_path: str
    window: float
    threshold: float
    target: float
    requests: list[Tick]

    @property
    def levels(self) -> list[tuple[float, int]]:
        """Labels of the token axis as position and tokens, without overlapping labels."""
        places = [
            (self.window, self.context_limit),
            (self.threshold, round(self.context_limit * self.threshold_percent / 100)),
            (self.target, round(self.context_limit * self.target_percent / 100)),
            (100.0, 0),
        ]
        levels: list[tuple[float, int]] = []
        for place in places:
            if not levels or place[0] - levels[-1][0] >= LABEL_HEIGHT * 100:
                levels.append(place)
        return levels

    @property
    def threshold_percent(self) -> float:
        """Usage at which a collection starts, in percent of the window."""
        return self._first_report.threshold_percent

    @property
    def target_percent(self) -> float:
        """Usage that a collection aims for, in percent of the window."""
        return self._first_report.target_percent

    @property
    def any_misfits(self) -> bool:
        """Whether any request did not fit despite collection."""
        return any(panel.misfits for panel in self.panels)

    @property
    def _first_report(self) -> ReplayReport:
        return self.panels[0].report


@dataclass(frozen=True, slots=True)
class CostPart:
    """One segment of a cost bar."""

    name: str
    money: float
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class CostBar:
    """The cost of the run with one strategy.

    Args:
        report: The run.
        colour: Colour number of the strategy.
        parts: Segments of the cost. The last one is the cost of repeated lookups.
        saving: Fraction saved compared to `KEEP_LAST`, or ``None`` unless both runs finished.
    """

    report: ReplayReport
    colour: int
    parts: list[CostPart]
    saving: float | None


def cost_parts(report: ReplayReport, price: Price | None) -> dict[str, float]:
    """Returns the parts of a run's cost, by name. Without a price it is not split."""
    if price is None:
        return {"requests": report.cost}
    read = sum(map(price.tokens_read_from_cache, report.requests))
    cache_reads = read * price.cache_read / 1_000_000
    output = report.output_tokens * price.output / 1_000_000
    new_input = report.cost - cache_reads - output
    return {"cache reads": cache_reads, "new input": new_input, "output": output}


def usage_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> UsageChart:
    """Returns the window usage chart for the reports of one transcript and window.

    The first one that collects has up to `MAIN_MARKS` marks, and the others up to `MARKS`.
    """
    context_limit = reports[0].context_limit
    last = last_request(reports)
    baseline = next((report for report in reports if report.strategy == NONE), None)
    collecting = [report for report in reports if report is not baseline] or [*reports]
    first_report = collecting[0]
    peak = max(report.peak_tokens for report in collecting)
    top = min(max(peak, context_limit), context_limit * MAX_WINDOWS) * HEADROOM
    return UsageChart(
        transcript=first_report.transcript,
        context_limit=context_limit,
        panels=[
            UsagePanel(
                report,
                colours[report.strategy],
                _line(report, last, top),
                marks_of(report, last, top, MAIN_MARKS if report is first_report else MARKS),
                _misfits(report, last),
            )
            for report in collecting
        ],
        baseline=baseline,
        baseline_path=_line(baseline, last, top) if baseline else "",
        window=from_top(context_limit / top),
        threshold=from_top(context_limit * first_report.threshold_percent / 100 / top),
        target=from_top(context_limit * first_report.target_percent / 100 / top),
        requests=request_ticks(last),
    )


def cost_bars(
    reports: Sequence[ReplayReport], colours: Mapping[str, int], prices: Mapping[str, Price]
) -> list[CostBar]:
    """Returns one cost bar per strategy. The most expensive one fills the chart's width."""
    highest = max(report.total_cost for report in reports) or 1.0
    simple = next((report for report in reports if report.strategy == KEEP_LAST), None)
    bars = []
    for report in reports:
        parts: list[CostPart] = []
        start = 0.0
        named = cost_parts(report, prices.get(report.model))
        for name, money in {**named, "repeated lookups": report.lookup_cost}.items():
            width = 100 * money / highest
            parts.append(CostPart(name, money, round(start, 2), round(width, 2)))
            start += width
        is_comparable = simple and simple.cost and report.strategy not in (NONE, KEEP_LAST)
        saving = None
        if simple and is_comparable and report.refused_at is simple.refused_at is None:
            saving = 1 - report.cost / simple.cost
        bars.append(CostBar(report, colours[report.strategy], parts, saving))
    return bars


def _line(report: ReplayReport, last: int, top: float) -> str:
    return outline((x / last, tokens / top) for x, tokens in usage_points(report))


def _misfits(report: ReplayReport, last: int) -> list[tuple[float, float]]:
    """Returns start and width of each range of overflows, in percent, with a minimum width."""
    ranges: list[tuple[float, float]] = []
    for position, request in enumerate(report.requests):
        if not request.fits:
            start, end = 100 * (position - 0.5) / last, 100 * (position + 0.5) / last
            if ranges and start - ranges[-1][1] < MIN_WIDTH:
                start = ranges.pop()[0]
            ranges.append((start, end))
    return [
        (round(max(start, 0), 2), round(max(min(end, 100) - max(start, 0), MIN_WIDTH), 2))
        for start, end in ranges
    ]
