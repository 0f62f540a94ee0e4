"""The main chart: one run with and without collection, on the scale of the larger one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jaato_gc_lab._axes import (
    HEADROOM,
    LABEL_HEIGHT,
    Tick,
    from_top,
    last_request,
    request_ticks,
    sent_points,
)
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import Point, outline, polyline, ticks


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
    """The names of one or more lines, with their position.

    Args:
        names: Names of the strategies.
        peak: Tokens of their largest request.
        x: Horizontal position.
        y: Vertical position.
        side: Which side of the text is at the horizontal position, and whether the text is above
            the position: ``"left above"``, ``"centre"``.
    """

    names: list[str]
    peak: int
    x: float
    y: float
    side: str


@dataclass(frozen=True, slots=True)
class ContrastChart:
    """One run with the recommended strategy, with the others, and without collection.

    Args:
        lines: One line per strategy, in ranking order.
        labels: Labels of the main lines.
        best: The run with the recommended strategy.
        baseline: The run without collection, or ``None``.
        overflow: Path data of the area below the baseline. Drawn above the window only.
        overflow_label: Height of the label in that area, or ``None`` if it has no room.
        window: Position of the window's limit.
        tokens: Ticks of the token axis.
        requests: Ticks of the request axis.
    """

    lines: list[Line]
    labels: list[Label]
    best: ReplayReport
    baseline: ReplayReport | None
    overflow: str
    overflow_label: float | None
    window: float
    tokens: list[Tick]
    requests: list[Tick]

    @property
    def others(self) -> list[Line]:
        """The lines that are hidden at first."""
        return [line for line in self.lines if not line.is_main]


def contrast_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> ContrastChart:
    """Returns the main chart for the reports of one transcript and window, in ranking order.

    Lines show what was sent. What a collection removed before a request is not part of them.
    """
    best = reports[0]
    baseline = next((report for report in reports if report.strategy == NONE), None)
    context_limit = best.context_limit
    last = last_request(reports)
    peak = max(report.peak_tokens for report in reports)
    top = max(peak, context_limit) * HEADROOM
    window = from_top(context_limit / top)
    overflowing = baseline if baseline and baseline.overflows else None

    def points(report: ReplayReport) -> list[Point]:
        return [(x / last, tokens / top) for x, tokens in sent_points(report)]

    return ContrastChart(
        lines=[
            Line(
                report,
                colours[report.strategy],
                polyline(points(report)),
                is_main=report is best or report is baseline,
            )
            for report in reports
        ],
        labels=_labels(best, baseline, last, top),
        best=best,
        baseline=baseline,
        overflow=outline(points(overflowing)) if overflowing else "",
        overflow_label=_overflow_label(overflowing, top) if overflowing else None,
        window=window,
        tokens=[
            Tick(at, value)
            for value in ticks(top, 5)
            if abs((at := from_top(value / top)) - window) > 100 * LABEL_HEIGHT / 2
        ],
        requests=request_ticks(last),
    )


def _labels(
    best: ReplayReport, baseline: ReplayReport | None, last: int, top: float
) -> list[Label]:
    """Returns the labels of the main lines, or one label if both lines are the same."""
    if baseline is None or baseline is best:
        return [_at_peak(best, [best.strategy], last, top)]
    if not best.collections:
        return [_at_peak(baseline, [best.strategy, baseline.strategy], last, top)]
    height = best.mean_tokens / top
    own = Label([best.strategy], best.peak_tokens, 50.0, from_top(height / 2), "centre")
    if height < 1.5 * LABEL_HEIGHT:  # too low for a text, which is above the window then
        own = replace(own, x=100.0, y=from_top(best.context_limit / top), side="right above")
    return [own, _at_peak(baseline, [baseline.strategy], last, top)]


def _overflow_label(baseline: ReplayReport, top: float) -> float | None:
    """Returns the middle of the area that does not fit, over the last quarter of the run."""
    sizes = [request.tokens for request in baseline.requests[len(baseline.requests) * 3 // 4 :]]
    lower, upper = baseline.context_limit / top, min(sizes, default=0) / top
    return from_top((lower + upper) / 2) if upper - lower > 1.5 * LABEL_HEIGHT else None


def _at_peak(report: ReplayReport, names: list[str], last: int, top: float) -> Label:
    peak = report.peak_tokens
    sizes = [request.tokens for request in report.requests]
    x = 100 * sizes.index(peak) / last if sizes else 0.0
    side = "left" if x < 25 else "right" if x > 75 else "centre"
    return Label(names, peak, round(x, 2), from_top(peak / top), f"{side} above")
