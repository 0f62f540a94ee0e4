"""How full the window was, request by request, drawn with characters."""

from collections.abc import Sequence
from itertools import pairwise

from jaato_gc_lab._reports import ReplayReport

ROWS = 5
"""Rows of a chart: each is a fifth of the window."""
EIGHTHS = " ▁▂▃▄▅▆▇█"
PLAIN = " .:#"
"""For terminals that know letters only."""
OVER = "!"
"""In the place of a request that did not fit."""


def sawtooth(report: ReplayReport, width: int = 72, *, plain: bool = False) -> list[str]:
    """A chart of one run, some lines of text.

    It reaches from nothing to the whole window. Where several requests share a column, the largest
    is drawn; where one of them did not fit, the column is marked with an exclamation mark.

    Args:
        report: The run.
        width: How many characters a line may have.
        plain: Draw with ASCII characters.
    """
    axis, floor = ("|", "-") if plain else ("│", "─")
    margin = len("100% ") + len(axis)
    columns = _columns(report, max(width - margin, 1))
    shades = PLAIN if plain else EIGHTHS
    lines = []
    for row in range(ROWS, 0, -1):
        label = f"{100 * row // ROWS}%".rjust(margin - len(axis) - 1)
        cells = "".join(_cell(each, row, shades) for each in columns)
        lines.append(f"{label} {axis}{cells}".rstrip())
    first, last = "1", str(len(report.requests))
    space = " " * (margin - 1)
    lines.append(space + ("+" if plain else "└") + floor * len(columns))
    if len(columns) > len(first) + len(last):
        gap = " " * (len(columns) - len(first) - len(last))
        lines.append(f"{space} {first}{gap}{last}")
    return lines


def _columns(report: ReplayReport, most: int) -> list[float]:
    """The share of the window in each column; infinite where a request did not fit."""
    shares = [
        request.tokens / report.limit if request.fits else float("inf")
        for request in report.requests
    ]
    return [max(stretch) for stretch in _stretches(shares, most)]


def _stretches(values: Sequence[float], most: int) -> list[Sequence[float]]:
    """The values in order, in at most so many stretches of nearly the same length."""
    count = min(len(values), most)
    bounds = [number * len(values) // count for number in range(count + 1)] if count else []
    return [values[start:end] for start, end in pairwise(bounds)]


def _cell(share: float, row: int, shades: str) -> str:
    if share == float("inf"):
        return OVER if row == ROWS else shades[-1]
    filled = share * ROWS - (row - 1)
    step = round(filled * (len(shades) - 1))
    return shades[max(0, min(step, len(shades) - 1))]
