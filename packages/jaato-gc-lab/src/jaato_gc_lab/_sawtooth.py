"""Text chart of the window usage, request by request."""

from collections.abc import Sequence
from itertools import pairwise

from jaato_gc_lab._reports import ReplayReport

ROWS = 5
"""Rows of a chart. Each row is a fifth of the window."""
EIGHTHS = " ▁▂▃▄▅▆▇█"
PLAIN = " .:#"
"""Shades for terminals that show ASCII only."""
OVER = "!"
"""Mark of a request that did not fit."""


def sawtooth(report: ReplayReport, width: int = 72, *, plain: bool = False) -> list[str]:
    """Returns the lines of a text chart that shows the window usage of one run.

    The vertical axis is the whole window. If several requests share a column, the chart shows the
    largest. A column with a request that did not fit is marked with an exclamation mark.

    Args:
        report: The run.
        width: Maximum characters per line.
        plain: Use ASCII characters only.
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
    """Returns the usage of each column as a fraction, or infinity if a request did not fit."""
    shares = [
        request.tokens / report.context_limit if request.fits else float("inf")
        for request in report.requests
    ]
    return [max(chunk) for chunk in _chunks(shares, most)]


def _chunks(values: Sequence[float], most: int) -> list[Sequence[float]]:
    """Splits values into at most ``most`` consecutive chunks of nearly equal length."""
    count = min(len(values), most)
    bounds = [number * len(values) // count for number in range(count + 1)] if count else []
    return [values[start:end] for start, end in pairwise(bounds)]


def _cell(share: float, row: int, shades: str) -> str:
    if share == float("inf"):
        return OVER if row == ROWS else shades[-1]
    filled = share * ROWS - (row - 1)
    step = round(filled * (len(shades) - 1))
    return shades[max(0, min(step, len(shades) - 1))]
