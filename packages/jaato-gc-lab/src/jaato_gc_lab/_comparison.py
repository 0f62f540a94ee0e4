"""The results of a comparison, and their totals by strategy and window."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._reports import ReplayReport


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of a comparison.

    Args:
        path: The file.
        index: Position of the conversation in the file, starting at 0.
        transcript: Display name of the conversation.
        strategy: Name of the strategy.
        context_limit: Window size in tokens.
    """

    path: str
    index: int
    transcript: str
    strategy: str
    context_limit: int


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of one replay: a report or an error message."""

    cell: Cell
    report: ReplayReport | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StrategyTotals:
    """Totals of all runs with one strategy in one window.

    Runs whose fixed content exceeds the window count for no strategy.

    Args:
        strategy: Name of the strategy.
        context_limit: Window size in tokens.
        transcripts: Number of replayed runs.
        cannot_fit: Number of runs whose fixed content exceeds the window; not part of the totals.
        failed: Number of failed replays.
        refused: Number of runs with a request that did not fit.
        refused_after: Median fraction of these runs that was played before that request; ``None``
            if no run was refused.
        edits: Number of edits that quote text which the recording showed before.
        blind_edits: Number of those whose text was not in the context any more.
        context_used: Number of uses of names in calls that an earlier message showed.
        context_lost: Number of those whose original surroundings were not in the context any more.
        names_used: Number of uses of names that an earlier message showed.
        names_lost: Number of those that no message showed any more.
        rereads: Number of files that would have to be read again.
        reread_tokens: Tokens of these files.
        requests: Number of requests.
        overflows: Number of requests that did not fit into the window.
        violations: Number of violations that a provider would reject.
        collections: Number of collections.
        input_tokens: Input tokens of all requests.
        cached_tokens: Input tokens that the provider could read from its cache.
        output_tokens: Tokens of all answers.
        cost: Cost of all runs.
        lookup_cost: Minimum additional cost of looking up removed content again.
        currency: Currency of ``cost`` and ``lookup_cost``.
        cost_ratio: Cost divided by the cost with `KEEP_LAST`, over the runs that both finished;
            ``None`` if there is none, and for the run without collection.
        cost_pairs: Number of runs that both finished.
        seconds: Time spent on collections, in seconds.
    """

    strategy: str
    context_limit: int
    transcripts: int
    cannot_fit: int
    failed: int
    refused: int
    refused_after: float | None
    edits: int
    blind_edits: int
    context_used: int
    context_lost: int
    names_used: int
    names_lost: int
    rereads: int
    reread_tokens: int
    requests: int
    overflows: int
    violations: int
    collections: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    lookup_cost: float
    currency: str
    cost_ratio: float | None
    cost_pairs: int
    seconds: float

    @property
    def total_cost(self) -> float:
        """Cost of all runs plus the cost of repeated lookups."""
        return self.cost + self.lookup_cost

    @property
    def blind_edit_share(self) -> float | None:
        """Fraction of the edits that were blind; ``None`` without edits."""
        return self.blind_edits / self.edits if self.edits else None

    @property
    def lost_context_share(self) -> float | None:
        """Fraction of the names in calls whose surroundings were lost; ``None`` without any."""
        return self.context_lost / self.context_used if self.context_used else None

    @property
    def lost_name_share(self) -> float | None:
        """Fraction of the used names that were lost; ``None`` without any."""
        return self.names_lost / self.names_used if self.names_used else None


@dataclass(slots=True)
class Comparison:
    """The results of `compare`.

    Args:
        strategies: Names of the strategies: ``none``, ``keep-last``, then the given order.
        context_limits: Window sizes in tokens, in the given order.
        results: One result per replay, ordered by transcript, window and strategy.
        skipped: Reasons by file or conversation that could not be replayed with any strategy.
    """

    strategies: list[str]
    context_limits: list[int]
    results: list[CellResult] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def reports(self) -> list[ReplayReport]:
        """Reports of the successful replays."""
        return [result.report for result in self.results if result.report is not None]

    @property
    def failures(self) -> list[CellResult]:
        """Results of the failed replays."""
        return [result for result in self.results if result.report is None]

    @property
    def failed(self) -> dict[str, str]:
        """Error messages of the failed replays, by transcript, strategy and window."""
        return {
            f"{each.cell.transcript}, {each.cell.strategy}, {each.cell.context_limit:,}": each.error
            or ""
            for each in self.failures
        }

    @property
    def models(self) -> list[str]:
        """The models whose prices apply."""
        return list(dict.fromkeys(report.model for report in self.reports))

    @property
    def cannot_fit(self) -> dict[int, list[str]]:
        """Runs whose fixed content exceeds the window, by window. They count for no strategy."""
        found: dict[int, list[str]] = {context_limit: [] for context_limit in self.context_limits}
        for report in self.reports:
            if report.cannot_fit and report.transcript not in found[report.context_limit]:
                found[report.context_limit].append(report.transcript)
        return found

    def reports_of(self, strategy: str, context_limit: int) -> dict[tuple[str, int], ReplayReport]:
        """Returns the reports of one strategy in one window, by file and conversation.

        Runs whose fixed content exceeds the window are left out.
        """
        return {
            (result.cell.path, result.cell.index): result.report
            for result in self.results
            if result.report
            and not result.report.cannot_fit
            and (result.cell.strategy, result.cell.context_limit) == (strategy, context_limit)
        }

    def summaries(self) -> list[StrategyTotals]:
        """Returns one summary per window and strategy."""
        return [
            self.summary(name, context_limit)
            for context_limit in self.context_limits
            for name in self.strategies
        ]

    def summary(self, strategy: str, context_limit: int) -> StrategyTotals:
        """Returns the summary of one strategy in one window."""
        own, baseline = (
            self.reports_of(strategy, context_limit),
            self.reports_of(KEEP_LAST, context_limit),
        )
        reports = list(own.values())
        pairs = [
            (own[key].cost, baseline[key].cost)
            for key in own.keys() & baseline.keys()
            if strategy != NONE and own[key].refused_at is baseline[key].refused_at is None
        ]
        spent, expected = (math.fsum(pair[side] for pair in pairs) for side in (0, 1))
        played = [report.played for report in reports if report.refused_at is not None]
        cells = [each.cell for each in self.failures]

        def total(value_of: Callable[[ReplayReport], Any]) -> Any:
            return sum(map(value_of, reports))

        return StrategyTotals(
            strategy=strategy,
            context_limit=context_limit,
            transcripts=len(reports),
            cannot_fit=len(self.cannot_fit[context_limit]),
            failed=sum(
                (cell.strategy, cell.context_limit) == (strategy, context_limit) for cell in cells
            ),
            refused=len(played),
            refused_after=median(played) if played else None,
            edits=total(lambda report: report.edits),
            blind_edits=total(lambda report: len(report.blind_edits)),
            context_used=total(lambda report: report.context_used),
            context_lost=total(lambda report: report.context_lost),
            names_used=total(lambda report: report.names_used),
            names_lost=total(lambda report: report.names_lost),
            rereads=total(lambda report: report.rereads),
            reread_tokens=total(lambda report: report.reread_tokens),
            requests=total(lambda report: len(report.requests)),
            overflows=total(lambda report: report.overflows),
            violations=total(lambda report: len(report.violations)),
            collections=total(lambda report: len(report.collections)),
            input_tokens=total(lambda report: report.input_tokens),
            cached_tokens=total(lambda report: report.cached_tokens),
            output_tokens=total(lambda report: report.output_tokens),
            cost=total(lambda report: report.cost),
            lookup_cost=total(lambda report: report.lookup_cost),
            currency=reports[0].currency if reports else "",
            cost_ratio=spent / expected if expected else None,
            cost_pairs=len(pairs),
            seconds=total(lambda report: report.seconds),
        )
