"""A stacked bar for terminals: in colours, or with different characters where there are none."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # rich is imported when something is drawn: most commands draw nothing
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

COLOURS = ("#0072b2", "#e69f00", "#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#f0e442", "#999999")
"""Colours that colour-blind readers can distinguish, as in the report."""
CHARACTERS = "█░▓/▒=+x:o-~^*"
ASCII_CHARACTERS = "#.%/@=+x:o-~^*"
FREE, ASCII_FREE = "·", " "
MARK, ASCII_MARK = "▲", "^"


class Fill(NamedTuple):
    """How one segment is drawn.

    Args:
        character: The character that its cells have.
        style: Their style for rich; empty without colours.
    """

    character: str
    style: str


class Fills:
    """The fills of a terminal. Segments have the same fill in a bar and in its legend.

    Args:
        console: The terminal.
        options: Its options.
    """

    def __init__(self, console: "Console", options: "ConsoleOptions") -> None:
        self._has_colours = console.color_system is not None and not console.no_color
        self._is_ascii = options.ascii_only

    def __getitem__(self, position: int) -> Fill:
        characters = ASCII_CHARACTERS if self._is_ascii else CHARACTERS
        if not self._has_colours:
            return Fill(characters[position % len(characters)], "")
        # Beyond the number of colours, they are used again with another character.
        again, position = divmod(position, len(COLOURS))
        return Fill(characters[again % len(characters)], COLOURS[position])

    @property
    def free(self) -> Fill:
        """The fill of unused cells."""
        return Fill(ASCII_FREE if self._is_ascii else FREE, "dim" if self._has_colours else "")

    @property
    def mark(self) -> str:
        """The character that points to a place in a bar."""
        return ASCII_MARK if self._is_ascii else MARK


class StackedBar:
    """Segments side by side over the whole width, for rich.

    Args:
        sizes: Sizes of the segments. One that is not 0 has at least one cell.
        used: The share of the width that they take; the rest is free.
        height: Number of lines.
    """

    def __init__(self, sizes: Sequence[int], used: float = 1.0, height: int = 1) -> None:
        self._sizes = sizes
        self._used = used
        self._height = height

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        fills, width = Fills(console, options), options.max_width
        cells = divide(self._sizes, cell_at(self._used, width) if any(self._sizes) else 0)
        line = Text.assemble(
            *((fills[at].character * count, fills[at].style) for at, count in enumerate(cells)),
            (fills.free.character * (width - sum(cells)), fills.free.style),
            no_wrap=True,
        )
        for _ in range(self._height):
            yield line


def divide(sizes: Sequence[int], cells: int) -> list[int]:
    """Divides cells in proportion to sizes, with at least one for every size that is not 0."""
    total = sum(sizes)
    if not total:
        return [0] * len(sizes)
    exact = [size * cells / total for size in sizes]
    divided = [max(1, int(share)) if size else 0 for size, share in zip(sizes, exact, strict=True)]
    while sum(divided) > cells:  # small ones were rounded up, at the expense of the largest
        divided[divided.index(max(divided))] -= 1
    while sum(divided) < cells:
        missing = [share - count for share, count in zip(exact, divided, strict=True)]
        divided[missing.index(max(missing))] += 1
    return divided


def cell_at(share: float, width: int) -> int:
    """Returns the number of cells up to a share of the width: at least one if it is not 0."""
    return min(max(1, round(share * width)), width) if share > 0 else 0


def marks_at(shares: Iterable[float], width: int, mark: str) -> "Text":
    """Returns a line that points to places in the bar above it."""
    from rich.text import Text

    line = [" "] * width
    for share in shares:
        line[max(0, cell_at(min(share, 1.0), width) - 1)] = mark
    return Text("".join(line).rstrip(), no_wrap=True)
