"""Tables, bars and progress, drawn with Rich: plain text wherever there is no terminal."""

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
FEWEST = 8
"""Characters that stay of a text, however narrow the terminal is."""


def width() -> int:
    """How many characters a line may have."""
    columns = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
    return min(columns, WIDEST) if sys.stdout.isatty() else PLAIN_WIDTH


def is_plain() -> bool:
    """Whether the output can hold nothing but ASCII."""
    try:
        "█│└─▁…".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return True
    return False


def say(text: str = "") -> None:
    """A paragraph, wrapped; or an empty line."""
    _write("\n".join(textwrap.wrap(clean(text), width(), break_on_hyphens=False)))


def say_item(text: str, mark: str = "-") -> None:
    """A paragraph with a mark before it."""
    indent = " " * (len(mark) + 1)
    wrapped = textwrap.wrap(clean(text), width() - len(indent), break_on_hyphens=False)
    _write(f"{mark} " + f"\n{indent}".join(wrapped))


def say_heading(text: str) -> None:
    """What comes next, with an empty line before it."""
    from rich.text import Text

    _write("")
    _print(Text(clean(text), "bold"))


def say_lines(lines: Iterable[str]) -> None:
    """Lines that are laid out already."""
    _write("\n".join(lines))


def say_json(data: Any) -> None:
    """Data for machines."""
    _write(json.dumps(data, indent=2, default=str))


def bar(share: float, length: int = BAR) -> str:
    """A share of 1 as a bar."""
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
    """A table without lines.

    Args:
        headings: What stands above each column.
        rows: The cells. Text is cleaned.
        left: Columns that are set flush left; the others are numbers.
        flexible: The column that is cut where there is not enough room; the others never are.
        gap: Spaces between columns.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index in left else "right")
    cells = [[Text(clean(str(each))) for each in row] for row in rows]
    if flexible is not None:
        others = [n for n in range(len(headings)) if n != flexible]
        taken = sum(
            gap + max([*(row[n].cell_len for row in cells), *map(len, headings[n].split("\n"))])
            for n in others
        )
        room = max(width() - taken, len(headings[flexible]), FEWEST)
        for row in cells:
            row[flexible].truncate(room, overflow="crop" if is_plain() else "ellipsis")
    for row in cells:
        table.add_row(*row)
    _print(table)


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console(width=width(), highlight=False, markup=False, emoji=False, safe_box=True)
    with console.capture() as captured:
        console.print(renderable)
    _write("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))


def _write(text: str) -> None:
    # Not with Click: where only ASCII can be shown it writes UTF-8.
    print(text, flush=True)


Advance = Callable[[int, int, str], None]
"""Told how many are done, of how many, and what the latest was."""


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A progress bar on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(what, total=None)

        def advance(done: int, total: int, latest: str) -> None:
            drawn.update(task, completed=done, total=total, description=clean(latest, 40))

        yield advance
