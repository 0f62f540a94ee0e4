"""Aligned columns that fit any width: columns are left out before a name is cut."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union

from jaato_gc_lab._text import clean

if TYPE_CHECKING:  # rich is imported when something is drawn: most commands draw nothing
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

GAP = 2
"""Number of spaces between columns."""
SHORT_REST = 12
"""Number of characters after a name for which other columns are left out."""


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
    """Rows of aligned cells, for rich. One column has names, and is never left out.

    Cells may have text from anywhere: it is shown literally, without control characters.

    Args:
        rows: The cells.
        name: Position of the column with the names.
        headings: Headings of the columns; no line with headings if there are none.
        left: Positions of the other left-aligned columns.
        drop: Positions of the columns that are left out, in this order, if they do not fit.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Cell]],
        *,
        name: int,
        headings: Sequence[str] = (),
        left: Container[int] = (),
        drop: Sequence[int] = (),
    ) -> None:
        self._rows = rows
        self._name = name
        self._headings = headings
        self._left = left
        self._drop = drop

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        rows: list[list[Text | Name]] = [
            [_printable(cell, options) for cell in row] for row in self._rows
        ]
        if self._headings:
            rows.insert(0, [Text(heading, "bold") for heading in self._headings])
        widths = self._widths(rows, options.max_width)
        for row in rows:
            cells = {
                at: _lines(row[at], width, console, is_left=at == self._name or at in self._left)
                for at, width in widths.items()
            }
            for number in range(max(map(len, cells.values()), default=0)):
                line = Text(no_wrap=True)
                for at, lines in cells.items():
                    cell = lines[number] if number < len(lines) else Text(" " * widths[at])
                    line.append_text(cell).append(" " * GAP)
                line.rstrip()
                yield line

    def _widths(self, rows: "Sequence[Sequence[Text | Name]]", width: int) -> dict[int, int]:
        """Returns the widths of the columns that fit, by position."""
        widths = {at: max(map(_width, cells)) for at, cells in enumerate(zip(*rows, strict=True))}
        whole = widths.pop(self._name, 0)
        most = width - _total(each for at, each in widths.items() if at not in self._drop)
        names = [_least_width(row[self._name]) for row in rows]
        # A name that does not fit in any case is no reason to leave out a column.
        least = max((each for each in names if each <= most), default=0)
        for at in self._drop:
            if least + _total(widths.values()) > width:
                widths.pop(at, None)
        room = max(1, width - _total(widths.values()))
        return dict(sorted({**widths, self._name: min(whole, room)}.items()))


def _total(widths: Iterable[int]) -> int:
    return sum(GAP + each for each in widths)


def literal(text: str, options: "ConsoleOptions") -> str:
    """Returns text from anywhere as one line that the terminal can show, without control codes."""
    line = clean(text)
    return line.encode("ascii", "replace").decode() if options.ascii_only else line


def _printable(cell: Cell, options: "ConsoleOptions") -> "Text | Name":
    from rich.text import Text

    if isinstance(cell, Name):
        return Name(literal(cell.text, options), literal(cell.rest, options), cell.indent)
    return Text(literal(cell, options)) if isinstance(cell, str) else cell


def _width(cell: "Text | Name") -> int:
    from rich.cells import cell_len

    if not isinstance(cell, Name):
        return cell.cell_len
    return cell.indent + cell_len(f"{cell.text} {cell.rest}".strip())


def _least_width(cell: "Text | Name") -> int:
    """Returns the width of a name and the beginning of the text after it."""
    if not isinstance(cell, Name):
        return cell.cell_len
    return _width(Name(cell.text, cell.rest[:SHORT_REST], cell.indent))


def _lines(cell: "Text | Name", width: int, console: "Console", *, is_left: bool) -> "list[Text]":
    """Returns a cell in lines of the same width."""
    from rich.text import Text

    if not isinstance(cell, Name):
        cell = cell.copy()
        cell.align("left" if is_left else "right", width)
        return [cell]
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
        line.align("left", width)
    return lines
