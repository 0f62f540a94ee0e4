"""Aligned columns that fit any width: columns are left out before a name is cut."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union

from jaato_gc_lab._text import clean

if TYPE_CHECKING:  # rich is imported when something is drawn: most commands draw nothing
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

SHORT_REST = 12
"""Number of characters after a name for which other columns are left out."""
ELSEWHERE = "A wider terminal or --json"


@dataclass(frozen=True, slots=True)
class Name:
    """A cell that is never cut.

    Args:
        text: The name. It continues in the next line if it is too long.
        rest: Text after it, such as a command, which is cut if it is too long.
        indent: Number of spaces before it.
    """

    text: str
    rest: str = ""
    indent: int = 0


Cell: TypeAlias = Union[str, "Text", Name]


class Columns:
    """Rows of aligned cells, for rich.

    One column is flexible: it takes the space that the others leave, and is never left out. A
    string in it continues in the next line, at a space if there is one. Other columns are left out
    if they do not fit, which a line below the rows says if there are headings.

    Cells may have text from anywhere: it is shown literally, without control characters.

    Args:
        rows: The cells.
        headings: Headings of the columns, of one or more lines; by default there are none.
        flexible: Position of the flexible column, which is left-aligned.
        left: Positions of the other left-aligned columns.
        drop: Positions of the columns that may be left out, the least important first; by default
            all but the flexible one, the last one first.
        gap: Number of spaces between columns.
        elsewhere: What shows the columns that are left out.
    """

    def __init__(
        self,
        rows: Iterable[Sequence[Cell]],
        headings: Sequence[str] = (),
        *,
        flexible: int = 0,
        left: Container[int] = (),
        drop: Sequence[int] | None = None,
        gap: int = 2,
        elsewhere: str = ELSEWHERE,
    ) -> None:
        self._rows = list(rows)
        self._headings = headings
        self._flexible = flexible
        self._left = left
        self._drop = drop
        self._gap = gap
        self._elsewhere = elsewhere

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        headings = [Text(heading, "bold") for heading in self._headings]
        cells = [[_printable(cell, options) for cell in row] for row in self._rows]
        widths = self._widths([*([headings] if headings else []), *cells], options.max_width)
        if headings:
            yield from self._lines(headings, widths, console, is_heading=True)
        for row in cells:
            yield from self._lines(row, widths, console)
        if hidden := [_joined(each) for at, each in enumerate(self._headings) if at not in widths]:
            yield Text(f"Not enough space for: {', '.join(hidden)}. {self._elsewhere} shows them.")

    def _lines(
        self,
        row: "Sequence[Text | Name]",
        widths: Mapping[int, int],
        console: "Console",
        *,
        is_heading: bool = False,
    ) -> "Iterator[Text]":
        """Yields the lines of a row. Headings are as close to the rows as possible."""
        from rich.text import Text

        cells = {at: _wrapped(row[at], width, console) for at, width in widths.items()}
        height = max(map(len, cells.values()), default=0)
        for number in range(height):
            line = Text(no_wrap=True)
            for at, lines in cells.items():
                place = number - (height - len(lines)) if is_heading else number
                cell = lines[place] if 0 <= place < len(lines) else Text()
                is_left = at == self._flexible or at in self._left
                cell.align("left" if is_left else "right", widths[at])
                line.append_text(cell).append(" " * self._gap)
            line.rstrip()
            yield line

    def _widths(self, rows: "Sequence[Sequence[Text | Name]]", width: int) -> dict[int, int]:
        """Returns the widths of the columns that fit, by position."""
        widths = {at: max(map(_width, cells)) for at, cells in enumerate(zip(*rows, strict=True))}
        whole = widths.pop(self._flexible, 0)
        drop = sorted(widths, reverse=True) if self._drop is None else self._drop
        most = width - self._total(each for at, each in widths.items() if at not in drop)
        names = [_least_width(row[self._flexible]) for row in rows]
        # A name that does not fit in any case leaves room for other columns.
        least = max((each if each <= most else most // 2 for each in names), default=0)
        for at in drop:
            if least + self._total(widths.values()) > width:
                widths.pop(at, None)
        room = max(1, width - self._total(widths.values()))
        return dict(sorted({**widths, self._flexible: min(whole, room)}.items()))

    def _total(self, widths: Iterable[int]) -> int:
        return sum(self._gap + each for each in widths)


def literal(text: str, options: "ConsoleOptions") -> str:
    """Returns text from anywhere as one line that the terminal can show, without control codes."""
    line = clean(text)
    return line.encode("ascii", "replace").decode() if options.ascii_only else line


def _printable(cell: Cell, options: "ConsoleOptions") -> "Text | Name":
    from rich.text import Text

    if isinstance(cell, Name):
        return Name(literal(cell.text, options), literal(cell.rest, options), cell.indent)
    return Text(literal(cell, options)) if isinstance(cell, str) else cell


def _joined(heading: str) -> str:
    """Returns a heading of several lines as one."""
    return heading.replace("-\n", "").replace("\n", " ")


def _width(cell: "Text | Name") -> int:
    from rich.cells import cell_len

    if not isinstance(cell, Name):
        return max(map(cell_len, cell.plain.split("\n")))
    return cell.indent + cell_len(f"{cell.text} {cell.rest}".strip())


def _least_width(cell: "Text | Name") -> int:
    """Returns the width of the longest word, or of a name and the beginning of its rest."""
    from rich.cells import cell_len

    if not isinstance(cell, Name):
        return max(map(cell_len, cell.plain.split()), default=0)
    return _width(Name(cell.text, cell.rest[:SHORT_REST], cell.indent))


def _wrapped(cell: "Text | Name", width: int, console: "Console") -> "list[Text]":
    """Returns the lines of a cell."""
    from rich.text import Text

    if not isinstance(cell, Name):
        return [*cell.wrap(console, width, overflow="fold")]
    room = max(1, width - cell.indent)
    name = Text(cell.text)
    if name.cell_len > room:
        lines = [*name.wrap(console, room, overflow="fold")]
    elif name.cell_len + len(" x…") > room:
        lines = [name]
    else:
        name.append(f" {cell.rest}" if cell.text else cell.rest)
        name.truncate(room, overflow="crop" if console.options.ascii_only else "ellipsis")
        lines = [name]
    for line in lines:
        line.rstrip()
        line.pad_left(cell.indent)
    return lines
