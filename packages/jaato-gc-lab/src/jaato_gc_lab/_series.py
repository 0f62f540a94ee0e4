"""From long series to short drawings: which points to keep, where they lie, how to say it in SVG.

Drawings are made on a square of 1000 by 1000 that the browser stretches to the size it has.
"""

from collections.abc import Iterable, Sequence
from itertools import count, pairwise

SIDE = 1000
OUTSIDE = 40
"""How far outside of the square an outline is closed, so that its edges are never seen."""

Point = tuple[float, float]
"""A place on the square, from 0 to 1, seen from the lower left."""


def telling(values: Sequence[float], most: int) -> list[int]:
    """Positions of the values that make up the picture: at most ``most`` of them.

    Of each stretch the smallest and the largest stay, so that no peak and no fall is lost.
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = most // 2
    kept: list[int] = []
    for number in range(stretches):
        start = number * len(values) // stretches
        end = (number + 1) * len(values) // stretches
        extremes = {
            min(range(start, end), key=values.__getitem__),
            max(range(start, end), key=values.__getitem__),
        }
        kept += sorted(extremes)
    return kept


def outline(points: Iterable[Point]) -> str:
    """The path data of the area below a line; it can be filled and drawn as a line at once."""
    places = [(round(x * SIDE), round((1 - y) * SIDE)) for x, y in points]
    if not places:
        return ""
    floor = SIDE + OUTSIDE
    steps = "".join(f"{_number(b[0] - a[0])}{_number(b[1] - a[1])}" for a, b in pairwise(places))
    first = f"M{-OUTSIDE} {floor}V{places[0][1]}H{places[0][0]}"
    return f"{first}{'l' if steps else ''}{steps.lstrip()}H{floor}V{floor}z"


def ticks(largest: float, most: int) -> list[int]:
    """Round numbers from 0 up to ``largest``: at most ``most`` of them, evenly spaced."""
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if largest / step <= most - 1)
    return list(range(0, int(largest) + 1, step))


def _number(value: int) -> str:
    """A number in path data: a minus sign separates it from what came before."""
    return str(value) if value < 0 else f" {value}"
