"""Helpers for line charts: downsampling, SVG path data and axis ticks.

Paths use a coordinate system of 1000 by 1000, which the browser stretches to the chart's size.
"""

from collections.abc import Iterable, Sequence
from itertools import count, pairwise

SIDE = 1000
OUTSIDE = 40
"""Distance outside of the visible area at which an outline is closed, which hides its edges."""

Point = tuple[float, float]
"""Coordinates from 0 to 1, measured from the lower left corner."""


def downsample(values: Sequence[float], most: int) -> list[int]:
    """Returns the positions of at most ``most`` values that preserve the shape of a series.

    The series is split into ranges. The smallest and the largest value of each range are kept, so
    that no peak is lost.
    """
    if len(values) <= most:
        return list(range(len(values)))
    ranges = most // 2
    kept: list[int] = []
    for number in range(ranges):
        start = number * len(values) // ranges
        end = (number + 1) * len(values) // ranges
        extremes = {
            min(range(start, end), key=values.__getitem__),
            max(range(start, end), key=values.__getitem__),
        }
        kept += sorted(extremes)
    return kept


def outline(points: Iterable[Point]) -> str:
    """Returns SVG path data of the area below a line."""
    places = _places(points)
    if not places:
        return ""
    floor = SIDE + OUTSIDE
    first = f"M{-OUTSIDE} {floor}V{places[0][1]}H{places[0][0]}"
    return f"{first}{_steps(places)}H{floor}V{floor}z"


def polyline(points: Iterable[Point]) -> str:
    """Returns SVG path data of a line."""
    places = _places(points)
    # A line of length 0 is drawn as a point.
    return f"M{places[0][0]} {places[0][1]}{_steps(places) or 'h0'}" if places else ""


def ticks(largest: float, most: int) -> list[int]:
    """Returns at most ``most`` evenly spaced round numbers from 0 to ``largest``."""
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if largest / step <= most - 1)
    return list(range(0, int(largest) + 1, step))


def _places(points: Iterable[Point]) -> list[tuple[int, int]]:
    return [(round(x * SIDE), round((1 - y) * SIDE)) for x, y in points]


def _steps(places: Sequence[tuple[int, int]]) -> str:
    steps = "".join(f"{_number(b[0] - a[0])}{_number(b[1] - a[1])}" for a, b in pairwise(places))
    return f"{'l' if steps else ''}{steps.lstrip()}"


def _number(value: int) -> str:
    """Formats a number for path data. A minus sign replaces the separating space."""
    return str(value) if value < 0 else f" {value}"
