"""The budget panel: the tokens of a context by source, for hosts that show it after each turn."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jaato_gc import GC_POLICY_INDICATORS, GCConfig, GCPolicy, GCResult
from jaato_gc.plugin import Limits
from jaato_gc_lab._budget_snapshot import BudgetSnapshot, Row
from jaato_gc_lab._columns import Cell, Columns, Name, literal
from jaato_gc_lab._figures import number, percent
from jaato_gc_lab._stacked_bar import Fill, Fills, StackedBar, cell_at, marks_at

if TYPE_CHECKING:  # rich is imported when something is drawn: most programs draw nothing
    from rich.console import Console, ConsoleOptions, RenderResult

NARROW = 60
"""Width below which a policy is only a sign."""
LONGEST_BAR = 30
SHORTEST_BAR = 8
BESIDE_BAR = 50
"""Cells of a line that the bar of a source leaves to the other columns."""


class BudgetPanel:
    """The tokens of a budget by source, against the window, for rich.

    The snapshot is enough, so that a client in another process can print the panel. Names in it are
    shown literally. Without colours, sources are drawn with different characters.

    Args:
        snapshot: What `InstructionBudget.snapshot` or `GCSession.get_context_usage` returned, also
            after a round trip through JSON. Context usage has no sources.
        config: The configuration of the session, to mark where collections start and end.
        collected: The last collection, to show what it freed.
        children: Number of turns, tools and other children to show below each source, largest
            first.

    Raises:
        GCError: The snapshot is invalid.
    """

    def __init__(
        self,
        snapshot: Mapping[str, Any],
        *,
        config: GCConfig | None = None,
        collected: GCResult | None = None,
        children: int = 0,
    ) -> None:
        self._budget = BudgetSnapshot.read(snapshot)
        self._config = config
        self._collected = collected
        self._children = children

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        budget, fills, width = self._budget, Fills(console, options), options.max_width
        total, rows = budget.total_tokens, budget.rows
        marks = self._marks()
        yield Text(_title(budget, options), self._title_style(marks))
        drawn = max(budget.window, total, 1)
        sizes = [max(0, row.tokens) for row in rows] or [total]
        yield StackedBar(sizes, used=total / drawn)
        if marks:
            yield marks_at((tokens / drawn for tokens in marks.values()), width, fills.mark)
            yield Text(", ".join(_mark(*mark, budget.window) for mark in marks.items()))
        cells = list(self._cells(rows, fills, options))
        if cells:
            yield Columns(cells, flexible=1, left=(0, 4, 5), drop=(4, 3))
        if self._collected:
            yield Text(literal(_summary(self._collected), options))

    def _title_style(self, marks: Mapping[str, int]) -> str:
        """Returns red beyond the window, and yellow if a collection is due."""
        total = self._budget.total_tokens
        if "window" in marks:
            return "bold red"
        return "bold yellow" if total >= marks.get("threshold", total + 1) else "bold"

    def _marks(self) -> dict[str, int]:
        """Returns places in the bar, in tokens."""
        budget, marks = self._budget, {}
        if not budget.window:
            return {}
        if self._config:
            limits = Limits.of(self._config, budget.window, budget.fixed_tokens)
            target, threshold = limits.target_tokens, limits.trigger_tokens
            if target is not None and threshold is not None:
                marks = {"target": target, "threshold": threshold}
        if budget.total_tokens > budget.window:
            marks["window"] = budget.window
        return marks

    def _cells(
        self, rows: list[Row], fills: Fills, options: "ConsoleOptions"
    ) -> Iterator[list[Cell]]:
        for position, row in enumerate(rows):
            fill = fills[position]
            yield self._line(row, fill, options, is_source=True)
            for child in row.largest(self._children):
                yield self._line(child, fill, options, is_source=False)

    def _line(
        self, row: Row, fill: Fill, options: "ConsoleOptions", *, is_source: bool
    ) -> list[Cell]:
        from rich.text import Text

        budget = self._budget
        share = row.tokens / (budget.window or budget.total_tokens or 1)
        room = options.max_width - BESIDE_BAR
        length = min(room, LONGEST_BAR) if room >= SHORTEST_BAR else 0
        return [
            Text(fill.character * 2 if is_source else "", fill.style),
            Name(row.name, indent=0 if is_source else 2),
            number(row.tokens),
            percent(share),
            Text(fill.character * cell_at(share, length), fill.style),
            _policy(row.policy, options),
        ]


def _title(budget: BudgetSnapshot, options: "ConsoleOptions") -> str:
    agent = literal(budget.agent_id, options)
    name = f"{agent}: " if agent else ""
    total, window = number(budget.total_tokens), number(budget.window)
    if not budget.window:
        return f"{name}{total} tokens, window unknown"
    return f"{name}{total} of {window} tokens ({percent(budget.total_tokens / budget.window)})"


def _mark(name: str, tokens: int, window: int) -> str:
    return f"{name} {number(tokens)} ({percent(tokens / window)})"


def _summary(result: GCResult) -> str:
    if not result.tokens_freed:
        return f"last collection: {result}"
    why = f"{result.plugin_name}, {result.trigger_reason.value}, {result.outcome.value}"
    return f"last collection: {number(result.tokens_freed)} tokens freed ({why})"


def _policy(policy: str, options: "ConsoleOptions") -> str:
    """Returns a policy with its sign, which is last: terminals differ in the width of a padlock."""
    if policy not in list(GCPolicy) or options.ascii_only:
        return policy
    sign = GC_POLICY_INDICATORS[GCPolicy(policy)]
    return f"{policy} {sign}" if options.max_width >= NARROW else sign
