"""Prints text, tables and progress: with styles on a terminal, else as plain text."""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jaato_gc_lab._cli._inputs import with_stream_names
from jaato_gc_lab._text import clean

if TYPE_CHECKING:  # rich is imported when something is drawn
    from rich.console import RenderableType

PLAIN_WIDTH = 80
WIDEST = 100


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

    draw(Text(clean(text), "bold"))


def say_heading(text: str) -> None:
    """Prints a heading after an empty line."""
    from rich.text import Text

    _write("")
    draw(Text(clean(text), "bold"))


def say_result(text: str, *, is_good: bool) -> None:
    """Prints the last line of a command after an empty line: green or red on a terminal."""
    from rich.text import Text

    _write("")
    draw(Text(clean(text), "bold green" if is_good else "bold red"))


def say_chart(lines: Iterable[str]) -> None:
    """Prints a text chart without wrapping; on a terminal, with colours."""
    from rich.text import Text

    chart = Text("\n".join(lines), no_wrap=True)
    chart.highlight_regex(r"[▁-█#:.]+", "cyan")
    chart.highlight_regex(r"!+", "bold red")
    draw(chart)


def say_lines(lines: Iterable[str]) -> None:
    """Prints lines without wrapping."""
    _write("\n".join(lines))


def say_json(data: Any) -> None:
    """Prints data as JSON."""
    _write(json.dumps(data, indent=2, default=str))


def draw(renderable: "RenderableType") -> None:
    """Prints something that rich draws, without spaces at the end of lines."""
    from rich.console import Console

    console = Console(width=width(), highlight=False, markup=False, emoji=False)
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
