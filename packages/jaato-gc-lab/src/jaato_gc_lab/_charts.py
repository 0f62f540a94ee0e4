"""Data of the charts in a report, ready for the templates.

Coordinates are percentages of the chart's width and height, measured from its upper left corner.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._prices import Price
from jaato_gc_lab._reports import Collection, ReplayReport
from jaato_gc_lab._series import Point, downsample, outline, ticks

BASELINE = NONE
"""Strategy name of the run without collection."""
HEADROOM = 1.12
"""Height of a chart, relative to the window or the largest request."""
MAX_WINDOWS = 2
"""Maximum height of a chart, in windows. Requests above it are cut off."""
POINTS = 200
MARKS = 20
LABEL_HEIGHT = 0.11
"""Height of a line of text, as a fraction of the chart's height."""

MIN_WIDTH = 0.3
"""Minimum width of a visible mark, in percent of the chart's width."""

CostParts = Callable[[ReplayReport], Mapping[str, float]]
"""Returns the parts of a run's cost, by name."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A collection and its position in a chart."""

    x: float
    y: float
    number: int
    collection: Collection


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
    def first_overflow(self) -> int | None:
        """Number of the first request that does not fit without collection, starting at 1."""
        requests = self.baseline.requests if self.baseline else []
        return next((n for n, request in enumerate(requests, 1) if not request.fits), None)

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


def usage_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> UsageChart:
    """Returns the window usage chart for the reports of one transcript and window."""
    context_limit = reports[0].context_limit
    last = last_request(reports)
    baseline = next((report for report in reports if report.strategy == BASELINE), None)
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
                _marks(report, last, top),
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
    reports: Sequence[ReplayReport], colours: Mapping[str, int], cost_parts: CostParts | None
) -> list[CostBar]:
    """Returns one cost bar per strategy. The most expensive one fills the chart's width."""
    highest = max(report.total_cost for report in reports) or 1.0
    simple = next((report for report in reports if report.strategy == KEEP_LAST), None)
    bars = []
    for report in reports:
        parts: list[CostPart] = []
        start = 0.0
        named = cost_parts(report) if cost_parts else {"requests": report.cost}
        for name, money in {**named, "repeated lookups": report.lookup_cost}.items():
            width = 100 * money / highest
            parts.append(CostPart(name, money, round(start, 2), round(width, 2)))
            start += width
        is_comparable = simple and simple.cost and report.strategy not in (BASELINE, KEEP_LAST)
        saving = None
        if simple and is_comparable and report.refused_at is simple.refused_at is None:
            saving = 1 - report.cost / simple.cost
        bars.append(CostBar(report, colours[report.strategy], parts, saving))
    return bars


def cost_parts_at(price: Price) -> CostParts:
    """Returns a function that splits a run's cost into cache reads, new input and output."""

    def parts(report: ReplayReport) -> dict[str, float]:
        read = sum(
            request.cached_tokens
            for request in report.requests
            if request.cached_tokens >= price.min_cached_tokens
        )
        cache_reads = read * price.cache_read / 1_000_000
        output = report.output_tokens * price.output / 1_000_000
        new_input = report.cost - cache_reads - output
        return {"cache reads": cache_reads, "new input": new_input, "output": output}

    return parts


def _line(report: ReplayReport, last: int, top: float) -> str:
    points = _usage(report)
    kept = downsample([tokens for _, tokens in points], POINTS)
    return outline((points[i][0] / last, points[i][1] / top) for i in kept)


def _usage(report: ReplayReport) -> list[Point]:
    """Returns the tokens per request, with each collection as a vertical drop."""
    drops: dict[int, list[Point]] = {}
    for collection in report.collections:
        at = collection.request
        drops.setdefault(at, []).extend(
            [(at, collection.tokens_before), (at, collection.tokens_after)]
        )
    points: list[Point] = []
    for position, request in enumerate(report.requests):
        points += drops.pop(position, [])
        points.append((position, request.tokens))
    for after_last in sorted(drops):
        points += drops[after_last]
    return points


def _marks(report: ReplayReport, last: int, top: float) -> list[Mark]:
    """Returns the marks of the failed and the largest collections, at most ``MARKS``."""
    numbered = sorted(
        enumerate(report.collections, 1),
        key=lambda entry: (
            entry[1].error is None,
            entry[1].tokens_after - entry[1].tokens_before,
        ),
    )
    return [
        Mark(
            round(100 * collection.request / last, 2),
            max(from_top(collection.tokens_before / top), 0.0),
            number,
            collection,
        )
        for number, collection in sorted(numbered[:MARKS], key=lambda entry: entry[0])
    ]


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


def last_request(reports: Sequence[ReplayReport]) -> int:
    """Returns the right end of the request axis, as a position in the list of requests."""
    ends = [len(report.requests) - 1 for report in reports]
    ends += [collection.request for report in reports for collection in report.collections]
    return max(*ends, 1)


def request_ticks(last: int, most: int = 6) -> list[Tick]:
    """Returns the ticks of the request axis, which starts at request 1."""
    return [
        Tick(round(100 * (max(value, 1) - 1) / last, 2), max(value, 1))
        for value in ticks(last + 1, most)
    ]


def from_top(share: float) -> float:
    """Converts a fraction of the height to a percentage from the top."""
    return round(100 * (1 - share), 2)
