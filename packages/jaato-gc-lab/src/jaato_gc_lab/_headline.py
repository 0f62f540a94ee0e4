"""The main figures of a window: the recommended strategy against the simplest ones."""

from dataclasses import dataclass
from functools import cached_property

from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._runs import Runs


@dataclass(frozen=True)
class Totals:
    """Totals of one strategy over the runs of a headline.

    Args:
        strategy: Name of the strategy.
        colour: Colour number of the strategy.
        reports: The runs.
    """

    strategy: str
    colour: int
    reports: list[ReplayReport]

    @cached_property
    def requests(self) -> int:
        """Number of requests."""
        return sum(len(report.requests) for report in self.reports)

    @cached_property
    def overflows(self) -> int:
        """Number of requests that do not fit into the window."""
        return sum(report.overflows for report in self.reports)

    @cached_property
    def input_tokens(self) -> int:
        """Input tokens of all requests."""
        return sum(report.input_tokens for report in self.reports)

    @cached_property
    def cost(self) -> float:
        """Cost of all requests, without repeated lookups, as in the ranking of costs."""
        return sum(report.cost for report in self.reports)

    @cached_property
    def lost_share(self) -> float | None:
        """Fraction of the names in calls whose context was lost; ``None`` without any."""
        used = sum(report.context_used for report in self.reports)
        return sum(report.context_lost for report in self.reports) / used if used else None


@dataclass(frozen=True, slots=True)
class Headline:
    """The main figures of one window, over the runs that all of its strategies have.

    Args:
        context_limit: Window size in tokens.
        totals: The recommended strategy first, then `KEEP_LAST` and the run without collection.
    """

    context_limit: int
    totals: list[Totals]

    @property
    def best(self) -> Totals:
        """The recommended strategy."""
        return self.totals[0]

    @property
    def baseline(self) -> Totals:
        """The run without collection."""
        return self.totals[-1]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.best.reports)

    @property
    def currency(self) -> str:
        """Currency of all costs."""
        return self.best.reports[0].currency


def headline(runs: Runs, context_limit: int) -> Headline | None:
    """Returns the main figures of a window.

    Returns:
        The figures, or ``None`` if the window has no ranking or no run to compare.
    """
    best = runs.first_ranked(context_limit)
    if best is None or NONE not in runs.strategies:
        return None
    names = [best, *(name for name in (KEEP_LAST,) if name in runs.strategies and name != best)]
    found = runs.comparable(context_limit, [*names, NONE])
    if not found[NONE]:
        return None
    return Headline(
        context_limit,
        [Totals(name, runs.colours[name], reports) for name, reports in found.items()],
    )
