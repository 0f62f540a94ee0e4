"""What the charts of a report show, worked out as far as a template needs it.

Places are percentages of a chart's width and height, seen from its upper left.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaato_gc_lab._prices import Price
from jaato_gc_lab._reports import Collection, ReplayReport
from jaato_gc_lab._series import Point, outline, telling, ticks

BASELINE = "none"
"""The strategy's name where nothing was collected."""
HEADROOM = 1.12
"""How far a chart reaches above the window, or above the largest request."""
FARTHEST = 2
"""How many windows a chart shows at most if requests do not fit; the rest is cut off."""
POINTS = 200
MARKS = 20
LABELLED = 0.11
"""The share of a chart's height that a line of text needs."""

VISIBLE = 0.3
"""Percent of a chart's width that can be seen."""

CostParts = Callable[[ReplayReport], Mapping[str, float]]
"""The parts of a run's cost, by name, in money."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on an axis."""

    at: float
    value: int


@dataclass(frozen=True, slots=True)
class Mark:
    """One collection, where it is shown."""

    x: float
    y: float
    number: int
    collection: Collection


@dataclass(frozen=True, slots=True)
class UsagePanel:
    """The requests of one strategy, and what it collected."""

    report: ReplayReport
    colour: int
    path: str
    marks: list[Mark]
    misfits: list[tuple[float, float]]
    """Start and width of each stretch of requests that did not fit."""


@dataclass(frozen=True, slots=True)
class UsageChart:
    """One transcript in one window: a panel for each strategy, all on the same scales.

    Args:
        transcript: Its name.
        limit: The window, in tokens.
        panels: One for each strategy that collected.
        baseline: The run without collection, to compare with.
        baseline_path: Its line, for every panel.
        window: Where the window ends.
        threshold: Where a collection starts.
        target: Where it should end.
        requests: Ticks of the axis of requests.
    """

    transcript: str
    limit: int
    panels: list[UsagePanel]
    baseline: ReplayReport | None
    baseline_path: str
    window: float
    threshold: float
    target: float
    requests: list[Tick]

    @property
    def levels(self) -> list[tuple[float, int]]:
        """What the axis of tokens tells: place and tokens, none so close that numbers collide."""
        places = [
            (self.window, self.limit),
            (self.threshold, round(self.limit * self.threshold_percent / 100)),
            (self.target, round(self.limit * self.target_percent / 100)),
            (100.0, 0),
        ]
        levels: list[tuple[float, int]] = []
        for place in places:
            if not levels or place[0] - levels[-1][0] >= LABELLED * 100:
                levels.append(place)
        return levels

    @property
    def threshold_percent(self) -> float:
        """Where a collection starts, in percent of the window."""
        return self._any.threshold_percent

    @property
    def target_percent(self) -> float:
        """Where a collection should end, in percent of the window."""
        return self._any.target_percent

    @property
    def first_overflow(self) -> int | None:
        """The first request, from 1 on, that would not fit if nothing were collected."""
        requests = self.baseline.requests if self.baseline else []
        return next((n for n, request in enumerate(requests, 1) if not request.fits), None)

    @property
    def any_misfits(self) -> bool:
        """Whether some requests did not fit in spite of collecting."""
        return any(panel.misfits for panel in self.panels)

    @property
    def _any(self) -> ReplayReport:
        return self.panels[0].report


@dataclass(frozen=True, slots=True)
class CostPart:
    """One part of a bar: what it stands for, its money, and its place."""

    name: str
    money: float
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class CostBar:
    """What the run under one strategy cost.

    Args:
        report: The run.
        colour: The strategy's.
        parts: What the cost consists of, and last what looking up again would cost on top.
        saving: The share that was saved against no collection, if that is known.
    """

    report: ReplayReport
    colour: int
    parts: list[CostPart]
    saving: float | None


def usage_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> UsageChart:
    """How full the window was at each request, for the reports of one transcript and window."""
    limit = reports[0].limit
    last = last_request(reports)
    baseline = next((report for report in reports if report.strategy == BASELINE), None)
    collecting = [report for report in reports if report is not baseline] or [*reports]
    any_report = collecting[0]
    peak = max(report.peak_tokens for report in collecting)
    top = min(max(peak, limit), limit * FARTHEST) * HEADROOM
    return UsageChart(
        transcript=any_report.transcript,
        limit=limit,
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
        window=down(limit / top),
        threshold=down(limit * any_report.threshold_percent / 100 / top),
        target=down(limit * any_report.target_percent / 100 / top),
        requests=request_ticks(last),
    )


def cost_bars(
    reports: Sequence[ReplayReport], colours: Mapping[str, int], cost_parts: CostParts | None
) -> list[CostBar]:
    """What the run cost under each strategy; the dearest bar is as wide as the chart."""
    highest = max(report.total_cost for report in reports) or 1.0
    full = next((report.cost for report in reports if report.strategy == BASELINE), 0.0)
    bars = []
    for report in reports:
        parts: list[CostPart] = []
        start = 0.0
        named = cost_parts(report) if cost_parts else {"requests": report.cost}
        for name, money in {**named, "looking up again": report.lookup_cost}.items():
            width = 100 * money / highest
            parts.append(CostPart(name, money, round(start, 2), round(width, 2)))
            start += width
        saving = 1 - report.cost / full if full and report.strategy != BASELINE else None
        bars.append(CostBar(report, colours[report.strategy], parts, saving))
    return bars


def cost_parts_at(price: Price) -> CostParts:
    """What runs cost at the price of a model, by what is paid for."""

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
    kept = telling([tokens for _, tokens in points], POINTS)
    return outline((points[i][0] / last, points[i][1] / top) for i in kept)


def _usage(report: ReplayReport) -> list[Point]:
    """Tokens along the requests, with the fall of each collection in the place where it was."""
    falls: dict[int, list[Point]] = {}
    for collection in report.collections:
        at = collection.request
        falls.setdefault(at, []).extend(
            [(at, collection.tokens_before), (at, collection.tokens_after)]
        )
    points: list[Point] = []
    for position, request in enumerate(report.requests):
        points += falls.pop(position, [])
        points.append((position, request.tokens))
    for late in sorted(falls):
        points += falls[late]
    return points


def _marks(report: ReplayReport, last: int, top: float) -> list[Mark]:
    """The collections with the most to tell: those that failed, and the largest."""
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
            max(down(collection.tokens_before / top), 0.0),
            number,
            collection,
        )
        for number, collection in sorted(numbered[:MARKS], key=lambda entry: entry[0])
    ]


def _misfits(report: ReplayReport, last: int) -> list[tuple[float, float]]:
    """Where requests did not fit, in percent of the axis; no stretch is too narrow to be seen."""
    stretches: list[tuple[float, float]] = []
    for position, request in enumerate(report.requests):
        if not request.fits:
            start, end = 100 * (position - 0.5) / last, 100 * (position + 0.5) / last
            if stretches and start - stretches[-1][1] < VISIBLE:
                start = stretches.pop()[0]
            stretches.append((start, end))
    return [
        (round(max(start, 0), 2), round(max(min(end, 100) - max(start, 0), VISIBLE), 2))
        for start, end in stretches
    ]


def last_request(reports: Sequence[ReplayReport]) -> int:
    """The right end of the axis, as a position in the list of requests."""
    ends = [len(report.requests) - 1 for report in reports]
    ends += [collection.request for report in reports for collection in report.collections]
    return max(*ends, 1)


def request_ticks(last: int, most: int = 6) -> list[Tick]:
    """Requests are counted from 1 on; the axis begins with the first."""
    return [
        Tick(round(100 * (max(value, 1) - 1) / last, 2), max(value, 1))
        for value in ticks(last + 1, most)
    ]


def down(share: float) -> float:
    """A share of the height as percent from the top."""
    return round(100 * (1 - share), 2)
