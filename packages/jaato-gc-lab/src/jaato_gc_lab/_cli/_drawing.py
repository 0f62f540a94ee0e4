"""Prints text, tables, bars and progress: with styles on a terminal, else as plain text."""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaato_gc_lab._cli._text import clean

PLAIN_WIDTH = 80
WIDEST = 100
BAR = 20
MIN_COLUMN = 8
"""Minimum width of a truncated column, in characters."""


def width() -> int:
    """Returns the maximum width of a line, in characters."""
    columns = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
    return min(columns, WIDEST) if sys.stdout.isatty() else PLAIN_WIDTH


def is_plain() -> bool:
    """Returns whether the output supports ASCII characters only."""
    try:
        "█│└─▁…".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return True
    return False


def say(text: str = "") -> None:
    """Prints a wrapped paragraph, or an empty line."""
    _write("\n".join(textwrap.wrap(clean(text), width(), break_on_hyphens=False)))


def say_item(text: str, mark: str = "-") -> None:
    """Prints a wrapped paragraph as a list item."""
    indent = " " * (len(mark) + 1)
    wrapped = textwrap.wrap(clean(text), width() - len(indent), break_on_hyphens=False)
    _write(f"{mark} " + f"\n{indent}".join(wrapped))


def say_heading(text: str) -> None:
    """Prints a heading after an empty line."""
    from rich.text import Text

    _write("")
    _print(Text(clean(text), "bold"))


def say_lines(lines: Iterable[str]) -> None:
    """Prints lines without wrapping."""
    _write("\n".join(lines))


def say_json(data: Any) -> None:
    """Prints data as JSON."""
    _write(json.dumps(data, indent=2, default=str))


def bar(share: float, length: int = BAR) -> str:
    """Returns a bar for a fraction from 0 to 1."""
    full = round(max(0.0, min(share, 1.0)) * length)
    if share > 0 and not full:
        return "." if is_plain() else "▏"
    return ("#" if is_plain() else "█") * full


def say_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    left: Sequence[int] = (0,),
    flexible: int | None = None,
    gap: int = 2,
) -> None:
    """Prints a table without borders.

    If it is too wide, the flexible column is truncated and the last columns are left out.

    Args:
        headings: Column headings.
        rows: The cells. Control characters are removed.
        left: Positions of the left-aligned columns. The others are right-aligned.
        flexible: Position of the column that is truncated if the table is too wide.
        gap: Number of spaces between columns.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(clean(str(each))) for each in row] for row in rows]
    widths = [
        gap + max([*(row[n].cell_len for row in cells), *map(len, heading.split("\n"))])
        for n, heading in enumerate(headings)
    ]
    least = list(widths)
    if flexible is not None:
        least[flexible] = min(widths[flexible], gap + max(len(headings[flexible]), MIN_COLUMN))
    columns = len(headings)
    while columns > 2 and sum(least[:columns]) - gap > width():
        columns -= 1
    if flexible is not None:
        room = width() + gap - sum(widths[:columns]) + widths[flexible]  # no gap after the last
        for row in cells:
            row[flexible].truncate(
                max(room, least[flexible]) - gap, overflow="crop" if is_plain() else "ellipsis"
            )
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for index, heading in enumerate(headings[:columns]):
        table.add_column(heading, justify="left" if index in left else "right")
    for row in cells:
        table.add_row(*row[:columns])
    _print(table)


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console(width=width(), highlight=False, markup=False, emoji=False, safe_box=True)
    with console.capture() as captured:
        console.print(renderable)
    _write("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def _write(text: str) -> None:
    # click.echo would write UTF-8 to a terminal that supports ASCII only.
    print(text, flush=True)


Advance = Callable[[int, int, str], None]
"""Called with the number of finished steps, the total, and the name of the last step."""


@contextmanager
def progress(description: str) -> Iterator[Advance]:
    """Shows a progress bar on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(description, total=None)

        def advance(done: int, total: int, latest: str) -> None:
            drawn.update(task, completed=done, total=total, description=clean(latest, 40))

        yield advance
