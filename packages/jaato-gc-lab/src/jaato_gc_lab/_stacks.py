"""What filled the window, request by request: one layer for each source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaato_gc_lab._charts import (
    BASELINE,
    HEADROOM,
    LABELLED,
    Tick,
    down,
    last_request,
    request_ticks,
)
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import outline, telling, ticks

SOURCES = ("system", "tools", "synthetic", "user", "model", "thoughts", "calls", "results")
"""In the order of the stack, from the bottom up: what never goes lies lowest."""
STACK_POINTS = 64


@dataclass(frozen=True, slots=True)
class Layer:
    """One source in the stack of one strategy.

    Args:
        source: Its name.
        path: The area from the floor up to its upper edge; it is drawn over the layers above it.
        mean: Its mean tokens in a request.
        x: Where its name has room, or ``None``.
        y: Likewise.
    """

    source: str
    path: str
    mean: float
    x: float | None
    y: float | None


@dataclass(frozen=True, slots=True)
class SourcesPanel:
    """What filled the requests of one strategy: layers, the topmost first."""

    report: ReplayReport
    colour: int
    layers: list[Layer]


@dataclass(frozen=True, slots=True)
class SourcesChart:
    """What filled the window, a panel for each strategy."""

    panels: list[SourcesPanel]
    sources: list[str]
    tokens: list[Tick]
    window: float
    requests: list[Tick]


def sources_chart(reports: Sequence[ReplayReport], colours: Mapping[str, int]) -> SourcesChart:
    """What filled the window at each request, for the reports of one transcript and window."""
    limit = reports[0].limit
    collecting = [report for report in reports if report.strategy != BASELINE] or [*reports]
    top = (max(report.peak_tokens for report in collecting) or limit) * HEADROOM
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
        tokens=[Tick(down(value / top), value) for value in ticks(top, 4)],
        window=down(limit / top),
        requests=request_ticks(last, most=4),
    )


def _layers(report: ReplayReport, sources: Sequence[str], last: int, top: float) -> list[Layer]:
    kept = telling([request.tokens for request in report.requests], STACK_POINTS)
    floor = [0.0] * len(kept)
    layers = []
    for source in sources:
        sizes = [report.requests[i].by_source.get(source, 0) for i in kept]
        edge = [below + size for below, size in zip(floor, sizes, strict=True)]
        path = outline((i / last, tokens / top) for i, tokens in zip(kept, edge, strict=True))
        x, y = _room_for_name(kept, floor, edge, last, top)
        total = sum(request.by_source.get(source, 0) for request in report.requests)
        layers.append(Layer(source, path, total / max(len(report.requests), 1), x, y))
        floor = edge
    return layers[::-1]


def _room_for_name(
    kept: Sequence[int], floor: Sequence[float], edge: Sequence[float], last: int, top: float
) -> tuple[float, float] | tuple[None, None]:
    """Where a layer is thickest, away from the sides, if it is thick enough for a name."""
    inside = [n for n, position in enumerate(kept) if 0.15 <= position / last <= 0.85]
    if not inside:
        return None, None
    n = max(inside, key=lambda n: edge[n] - floor[n])
    if (edge[n] - floor[n]) / top < LABELLED:
        return None, None
    return round(100 * kept[n] / last, 1), down((edge[n] + floor[n]) / 2 / top)
