"""Axes that the charts share: positions, ticks and the points of a run.

Positions are percentages of a chart's width and height, measured from its upper left corner.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._series import Point, downsample, ticks

HEADROOM = 1.12
"""Height of a chart, relative to the window or the largest request."""
LABEL_HEIGHT = 0.11
"""Height of a line of text, as a fraction of the chart's height."""
POINTS = 200
"""Maximum number of points of a line."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled position on an axis."""

    at: float
    value: int


def from_top(share: float) -> float:
    """Converts a fraction of the height to a percentage from the top."""
    return round(100 * (1 - share), 2)


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


def sent_points(report: ReplayReport) -> list[Point]:
    """Returns the tokens of each request, as `usage_points` does, without collections."""
    return _few([(position, request.tokens) for position, request in enumerate(report.requests)])


def usage_points(report: ReplayReport) -> list[Point]:
    """Returns the tokens by request, with each collection as a vertical drop.

    Long runs have at most `POINTS` points, which include every peak.
    """
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
    return _few(points)


def _few(points: list[Point]) -> list[Point]:
    return [points[i] for i in downsample([tokens for _, tokens in points], POINTS)]
