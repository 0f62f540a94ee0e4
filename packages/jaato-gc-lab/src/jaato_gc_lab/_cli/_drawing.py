"""Prints text, tables, bars and progress: with styles on a terminal, else as plain text."""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaato_gc_lab._cli._inputs import with_stream_names
from jaato_gc_lab._text import clean

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


def say_title(text: str) -> None:
    """Prints the wrapped first lines of a command, highlighted on a terminal."""
    from rich.text import Text

    _print(Text(clean(text), "bold"))


def say_heading(text: str) -> None:
    """Prints a heading after an empty line."""
    from rich.text import Text

    _write("")
    _print(Text(clean(text), "bold"))


def say_result(text: str, *, is_good: bool) -> None:
    """Prints the last line of a command after an empty line: green or red on a terminal."""
    from rich.text import Text

    _write("")
    _print(Text(clean(text), "bold green" if is_good else "bold red"))


def say_chart(lines: Iterable[str]) -> None:
    """Prints a text chart without wrapping; on a terminal, with colours."""
    from rich.text import Text

    chart = Text("\n".join(lines), no_wrap=True)
    chart.highlight_regex(r"[▁-█#:.]+", "cyan")
    chart.highlight_regex(r"!+", "bold red")
    _print(chart)


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
    least: Sequence[int] = (),
    gap: int = 2,
    in_json: bool = True,
) -> None:
    """Prints a table without borders.

    If it is too wide, the flexible column is truncated, and columns are left out, which a line
    below the table says. The first column always stays; what does not fit in it is continued on
    the next line, never cut.

    Args:
        headings: Column headings.
        rows: The cells. Control characters are removed.
        left: Positions of the left-aligned columns. The others are right-aligned.
        flexible: Position of a column with text, not names, that may be truncated.
        least: Positions of the columns to leave out, the least important first; by default the
            last ones first.
        gap: Number of spaces between columns.
        in_json: Whether ``--json`` shows the columns that are left out.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(clean(str(each))) for each in row] for row in rows]
    widths = [
        gap + max([*(row[n].cell_len for row in cells), *map(len, heading.split("\n"))])
        for n, heading in enumerate(headings)
    ]
    narrow = list(widths)
    words = [cell_len(word) for row in cells for word in row[0].plain.split(" ")]
    narrow[0] = gap + max([*words, *map(len, headings[0].split("\n"))])
    if flexible:  # the first column is never cut
        narrow[flexible] = min(widths[flexible], gap + max(len(headings[flexible]), MIN_COLUMN))
    kept = list(range(len(headings)))
    order = least or range(len(headings) - 1, 0, -1)
    for position in order:
        if sum(narrow[n] for n in kept) - gap > width():
            kept.remove(position)
    if flexible and flexible in kept:
        others = sum(widths[n] for n in kept if n != flexible)
        room = max(width() + gap - others, narrow[flexible]) - gap  # no gap after the last
        for row in cells:
            row[flexible].truncate(room, overflow="crop" if is_plain() else "ellipsis")
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for n in kept:
        table.add_column(
            headings[n], justify="left" if n in left else "right", overflow="fold", no_wrap=n > 0
        )
    for row in cells:
        table.add_row(*(row[n] for n in kept))
    _print(table)
    if hidden := [_joined(headings[n]) for n in range(len(headings)) if n not in kept]:
        where = "A wider terminal or --json" if in_json else "A wider terminal"
        say(f"Not enough space for: {', '.join(hidden)}. {where} shows them.")


def _joined(heading: str) -> str:
    """Returns a heading of several lines as one."""
    return heading.replace("-\n", "").replace("\n", " ")


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console(width=width(), highlight=False, markup=False, emoji=False, safe_box=True)
    with console.capture() as captured:
        console.print(renderable)
    _write("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def _write(text: str) -> None:
    # click.echo would write UTF-8 to a terminal that supports ASCII only.
    print(with_stream_names(text), flush=True)


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
