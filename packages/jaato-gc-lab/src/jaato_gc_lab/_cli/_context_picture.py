"""The picture of a context: a stacked bar of everything that fills it, and its legend."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaato_gc_lab._columns import Cell, Columns, Name
from jaato_gc_lab._figures import counted, number, percent
from jaato_gc_lab._slices import Slice, SliceKind
from jaato_gc_lab._stacked_bar import Fills, StackedBar, marks_at

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

MOST = 10
"""Maximum number of segments. Smaller slices are drawn as one."""
HEIGHT = 2

SOURCE_NAMES = {
    "system": "system prompt",
    "tools": "tool schemas",
    "user": "user messages",
    "model": "model messages",
    "results": "other results",
    "synthetic": "synthetic messages",
}
"""Names of sources in the legend, which also has names of tools."""


class ContextPicture:
    """A stacked bar with its legend, for rich.

    Args:
        slices: What fills the context, largest first.
        window: The window; 0 draws the context over the whole width.
    """

    def __init__(self, slices: Sequence[Slice], window: int) -> None:
        self._slices = _with_rest(slices)
        self._total = sum(each.tokens for each in slices)
        self._window = window

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        fills, drawn = Fills(console, options), max(self._window, self._total, 1)
        sizes = [each.tokens for each in self._slices]
        yield StackedBar(sizes, used=self._total / drawn, height=HEIGHT)
        if 0 < self._window < self._total:
            yield marks_at([self._window / drawn], options.max_width, fills.mark)
        rows = [self._row(fills, at) for at in range(len(self._slices))]
        if rows:
            yield Columns(rows, flexible=1, left=(0, 4), drop=(4, 2))

    def _row(self, fills: Fills, position: int) -> list[Cell]:
        from rich.text import Text

        each, fill = self._slices[position], fills[position]
        is_source = each.kind is SliceKind.SOURCE
        return [
            Text(fill.character * 2, fill.style),
            Name(SOURCE_NAMES.get(each.name, each.name) if is_source else each.name),
            number(each.tokens),
            percent(each.tokens / self._total),
            counted(each.calls, "call") if each.calls else "",
        ]


def _with_rest(slices: Sequence[Slice]) -> list[Slice]:
    """Returns the largest slices, and one for all others."""
    if len(slices) <= MOST:
        return list(slices)
    shown, rest = slices[: MOST - 1], slices[MOST - 1 :]
    tokens, calls = sum(each.tokens for each in rest), sum(each.calls for each in rest)
    return [*shown, Slice(f"{len(rest)} smaller", SliceKind.SOURCE, tokens, calls)]
