"""Reports of a comparison, grouped for the page."""

from collections.abc import Iterable, Sequence

from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._ranking import Ranking
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._templates import STRATEGY_COLOURS

MIN_COLLECTIONS = 3
"""Minimum number of collections per strategy for the window that is shown first."""


class Runs:
    """Reports grouped by transcript, strategy and window, with the strategies in ranking order.

    Args:
        reports: The reports.
        rankings: One ranking per window. Strategies without one keep the order of the reports.

    Raises:
        ValueError: ``reports`` is empty.
    """

    def __init__(self, reports: Sequence[ReplayReport], rankings: Iterable[Ranking] = ()) -> None:
        if not reports:
            raise ValueError("no reports to show: pass at least one")
        self.reports = reports
        self.context_limits = sorted({report.context_limit for report in reports})
        self.strategies = list(dict.fromkeys(report.strategy for report in reports))
        self.collecting = [name for name in self.strategies if name != NONE]
        self.colours = {name: n % STRATEGY_COLOURS for n, name in enumerate(self.collecting)}
        self.colours[NONE] = STRATEGY_COLOURS
        self._ranked = {
            ranking.context_limit: [place.strategy for place in ranking.places]
            for ranking in rankings
        }
        self._cells: dict[tuple[str, int], list[ReplayReport]] = {}
        for report in reports:
            self._cells.setdefault((report.transcript, report.context_limit), []).append(report)
        self.transcripts = sorted({report.transcript for report in reports}, key=str.lower)

    def ranked(self, context_limit: int) -> list[str]:
        """Returns the strategies of a window in ranking order, the run without collection last."""
        ranked = self._ranked.get(context_limit, [])
        return sorted(
            self.strategies,
            key=lambda name: (
                name == NONE,
                ranked.index(name) if name in ranked else len(ranked),
            ),
        )

    def first_ranked(self, context_limit: int) -> str | None:
        """Returns the recommended strategy of a window, or ``None`` without a ranking."""
        return next(iter(self._ranked.get(context_limit, [])), None)

    def of(self, transcript: str, context_limit: int) -> list[ReplayReport]:
        """Returns the reports of one transcript in one window, in ranking order."""
        order = self.ranked(context_limit)
        return sorted(
            self._cells.get((transcript, context_limit), ()),
            key=lambda report: order.index(report.strategy),
        )

    def comparable(
        self, context_limit: int, strategies: Iterable[str]
    ) -> dict[str, list[ReplayReport]]:
        """Returns the reports of the runs that all of some strategies have in one window.

        Runs that cannot fit are left out.
        """
        found: dict[str, list[ReplayReport]] = {name: [] for name in strategies}
        for transcript in self.transcripts:
            own = {each.strategy: each for each in self.of(transcript, context_limit)}
            if found.keys() <= own.keys() and not any(own[name].cannot_fit for name in found):
                for name in found:
                    found[name].append(own[name])
        return found

    def most_telling(self, context_limit: int) -> list[ReplayReport]:
        """Returns the reports of the run from which the first strategy removed the most tokens.

        The list is empty if no run can fit.
        """
        first = self.ranked(context_limit)[0]
        cells = [self.of(transcript, context_limit) for transcript in self.transcripts]
        return max(
            (cell for cell in cells if cell and not cell[0].cannot_fit),
            key=lambda cell: (
                cell[0].strategy == first,
                cell[0].freed_by_reason.total(),
                cell[0].peak_tokens,
            ),
            default=[],
        )

    def transcripts_by_freed_tokens(self) -> list[str]:
        """Returns the names of the transcripts, most freed tokens first."""
        freed = dict.fromkeys(self.transcripts, 0)
        for report in self.reports:
            freed[report.transcript] += report.freed_by_reason.total()
        return sorted(self.transcripts, key=lambda name: -freed[name])

    def first_limit(self) -> int:
        """Returns the window that is shown first, or the smallest if no window qualifies.

        It is the largest with enough collections of every strategy, in the run with the most freed
        tokens.
        """
        transcript = self.transcripts_by_freed_tokens()[0]
        for context_limit in reversed(self.context_limits):
            counts = [
                len(report.collections)
                for report in self.of(transcript, context_limit)
                if report.strategy != NONE
            ]
            if counts and min(counts) >= MIN_COLLECTIONS:
                return context_limit
        return self.context_limits[0]
