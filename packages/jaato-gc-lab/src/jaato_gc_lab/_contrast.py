"""The main chart: one run with and without collection, on the scale of the larger one."""

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
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import outline, polyline, ticks


@dataclass(frozen=True, slots=True)
class Line:
    """The tokens of one strategy, request by request.

    Args:
        report: The run.
        colour: Colour number of the strategy.
        path: Path data of the line.
        is_main: Whether the line is one of the two that the chart contrasts.
    """

    report: ReplayReport
    colour: int
    path: str
    is_main: bool


@dataclass(frozen=True, slots=True)
class Label:
    """A text beside a line, with its position."""

    x: float
    y: float
    anchor: str
    report: ReplayReport


@dataclass(frozen=True, slots=True)
class ContrastChart:
    """One run with the recommended strategy, with the others, and without collection.

    Args:
        lines: One line per strategy, in ranking order.
        labels: Labels of the main lines, at their peaks.
        best: The run with the recommended strategy.
        baseline: The run without collection, or ``None``.
        overflow: Path data of the area below the baseline. Drawn above the window only.
        window: Position of the window's limit.
        tokens: Ticks of the token axis.
        requests: Ticks of the request axis.
    """

    lines: list[Line]
    labels: list[Label]
    best: ReplayReport
    baseline: ReplayReport | None
    overflow: str
    window: float
    tokens: list[Tick]
    requests: list[Tick]

    @property
    def others(self) -> list[Line]:
        """The lines that are hidden at first."""
        return [line for line in self.lines if not line.is_main]


def contrast_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> ContrastChart:
    """Returns the main chart for the reports of one transcript and window, in ranking order."""
    best = reports[0]
    baseline = next((report for report in reports if report.strategy == NONE), None)
    context_limit = best.context_limit
    last = last_request(reports)
    peak = max(report.peak_tokens for report in reports)
    top = max(peak, context_limit) * HEADROOM
    window = from_top(context_limit / top)
    main = [best, *([baseline] if baseline and baseline is not best else [])]
    return ContrastChart(
        lines=[
            Line(
                report,
                colours[report.strategy],
                polyline((x / last, tokens / top) for x, tokens in usage_points(report)),
                report in main,
            )
            for report in reports
        ],
        labels=[
            _label(report, last, top, is_below=report is best and len(main) > 1) for report in main
        ],
        best=best,
        baseline=baseline,
        overflow=outline((x / last, tokens / top) for x, tokens in usage_points(baseline))
        if baseline and baseline.overflows
        else "",
        window=window,
        tokens=[
            Tick(at, value)
            for value in ticks(top, 5)
            if abs((at := from_top(value / top)) - window) > 100 * LABEL_HEIGHT / 2
        ],
        requests=request_ticks(last),
    )


def _label(report: ReplayReport, last: int, top: float, *, is_below: bool) -> Label:
    """Returns the label of a line: above its peak, or in the middle of the area below it."""
    if is_below:
        middle = report.mean_tokens / 2 / top
        return Label(50.0, from_top(max(middle, LABEL_HEIGHT / 3)), "middle", report)
    sizes = [request.tokens for request in report.requests] or [0]
    at = 100 * sizes.index(max(sizes)) / last
    anchor = "start" if at < 25 else "end" if at > 75 else "middle"
    return Label(round(at, 2), from_top(max(sizes) / top), anchor, report)
