"""Stacked chart of the tokens by source, request by request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaato_gc_lab._axes import (
    HEADROOM,
    LABEL_HEIGHT,
    Tick,
    from_top,
    last_request,
    request_ticks,
)
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import downsample, outline, ticks

SOURCES = ("system", "tools", "synthetic", "user", "model", "thoughts", "calls", "results")
"""Sources from bottom to top. Content that is never removed is at the bottom."""
STACK_POINTS = 64


@dataclass(frozen=True, slots=True)
class Layer:
    """One source in the stack of one strategy.

    Args:
        source: Name of the source.
        path: Path data of the area from the axis to the layer's upper edge. Lower layers are drawn
            over higher ones.
        mean: Mean tokens of the source in a request.
        x: Horizontal position of the label, or ``None`` if the layer is too thin for one.
        y: Vertical position of the label, or ``None``.
    """

    source: str
    path: str
    mean: float
    x: float | None
    y: float | None


@dataclass(frozen=True, slots=True)
class SourcesPanel:
    """The layers of one strategy, top first."""

    report: ReplayReport
    colour: int
    layers: list[Layer]


@dataclass(frozen=True, slots=True)
class SourcesChart:
    """Tokens by source, with one panel per strategy."""

    panels: list[SourcesPanel]
    sources: list[str]
    tokens: list[Tick]
    window: float
    requests: list[Tick]


def sources_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> SourcesChart:
    """Returns the chart of tokens by source for the reports of one transcript and window."""
    context_limit = reports[0].context_limit
    collecting = [report for report in reports if report.strategy != NONE] or [*reports]
    top = (max(report.peak_tokens for report in collecting) or context_limit) * HEADROOM
    last = last_request(reports)
    names = {
        source
        for report in collecting
        for request in report.requests
        for source, tokens in request.by_source.items()
        if tokens
    }
    sources = [source for source in SOURCES if source in names] + sorted(names - {*SOURCES})
    return SourcesChart(
        panels=[
            SourcesPanel(report, colours[report.strategy], _layers(report, sources, last, top))
            for report in collecting
        ],
        sources=sources[::-1],
        tokens=[Tick(from_top(value / top), value) for value in ticks(top, 4)],
        window=from_top(context_limit / top),
        requests=request_ticks(last, most=4),
    )


def _layers(report: ReplayReport, sources: Sequence[str], last: int, top: float) -> list[Layer]:
    kept = downsample([request.tokens for request in report.requests], STACK_POINTS)
    floor = [0.0] * len(kept)
    layers = []
    for source in sources:
        sizes = [report.requests[i].by_source.get(source, 0) for i in kept]
        edge = [below + size for below, size in zip(floor, sizes, strict=True)]
        path = outline((i / last, tokens / top) for i, tokens in zip(kept, edge, strict=True))
        x, y = _label_position(kept, floor, edge, last, top)
        total = sum(request.by_source.get(source, 0) for request in report.requests)
        layers.append(Layer(source, path, total / max(len(report.requests), 1), x, y))
        floor = edge
    return layers[::-1]


def _label_position(
    kept: Sequence[int], floor: Sequence[float], edge: Sequence[float], last: int, top: float
) -> tuple[float, float] | tuple[None, None]:
    """Returns the centre of a layer where it is thickest, if a label fits there."""
    inside = [n for n, position in enumerate(kept) if 0.15 <= position / last <= 0.85]
    if not inside:
        return None, None
    n = max(inside, key=lambda n: edge[n] - floor[n])
    if (edge[n] - floor[n]) / top < LABEL_HEIGHT:
        return None, None
    return round(100 * kept[n] / last, 1), from_top((edge[n] + floor[n]) / 2 / top)
