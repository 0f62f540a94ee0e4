"""Ranks strategies and tests whether their differences are significant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from jaato_gc_lab._comparison import Comparison, StrategyTotals
from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._reports import ReplayReport

RULE = "Fewest violations first, then fewest refused runs, least lost context, and lowest cost."
"""The ranking rule, as shown to the user."""

RESAMPLES = 2_000
MIN_DIFFERENCES = 6
"""Minimum number of differing transcripts for a significant result.

Five equal signs occur by chance in 1 of 16 cases, six in 1 of 32, which is below 5 %.
"""

Measure = Callable[[ReplayReport], float]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one strategy in a ranking.

    Args:
        position: Position in the ranking, starting at 1.
        strategy: Name of the strategy.
        summary: Totals of the strategy.
        reason: Explanation of the place, in words.
        below_noise: Whether the difference to the strategy above is not significant.
    """

    position: int
    strategy: str
    summary: StrategyTotals
    reason: str
    below_noise: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranking of the strategies in one window.

    Args:
        context_limit: Window size in tokens.
        places: The strategies, best first.
        note: Result without collection, in words.
    """

    context_limit: int
    places: list[Place]
    note: str


def rank(comparison: Comparison) -> list[Ranking]:
    """Ranks the strategies of each window by `RULE`.

    The cost includes repeated lookups: one more request for every request that lacked a name, a
    quoted text or a file, and every file that has to be read again.

    A difference between two neighbours is significant if they differ on six transcripts or more,
    and a paired bootstrap with 2,000 samples and a fixed seed gives a 95 % confidence interval
    that excludes zero. Differences in violations are always significant. Only transcripts that
    were replayed with all strategies count, and that can fit at all.
    """
    return [_rank(comparison, context_limit) for context_limit in comparison.context_limits]


def _rank(comparison: Comparison, context_limit: int) -> Ranking:
    names = [name for name in comparison.strategies if name != NONE]
    own = {name: comparison.reports_of(name, context_limit) for name in comparison.strategies}
    common = set.intersection(*(set(reports) for reports in own.values())) if own else set()
    runs = {name: [own[name][key] for key in sorted(common)] for name in names}
    ordered = sorted(names, key=lambda name: (*_totals(runs[name]), name))
    places: list[Place] = []
    for position, name in enumerate(ordered, 1):
        summary = comparison.summary(name, context_limit)
        reason, below_noise = _figures(summary), False
        if position > 1:
            above = ordered[position - 2]
            verdict, below_noise = _compared(above, runs[above], runs[name])
            reason = f"{reason}; {verdict}"
        places.append(Place(position, name, summary, reason, below_noise))
    return Ranking(
        context_limit, places, _note(comparison.summary(NONE, context_limit), len(common))
    )


VIOLATIONS = "has more violations than"
MEASURES: tuple[tuple[str, Measure], ...] = (
    (VIOLATIONS, lambda report: len(report.violations)),
    ("has more refused runs than", lambda report: report.refused_at is not None),
    ("loses more context than", lambda report: report.context_lost),
    ("costs more than", lambda report: report.total_cost),
)
"""The ranking criteria, most important first, with the verdict for the worse strategy."""


def _totals(reports: Sequence[ReplayReport]) -> tuple[float, ...]:
    return tuple(round(sum(map(measure, reports)), 9) for _, measure in MEASURES)


def _compared(
    above: str, better: Sequence[ReplayReport], own: Sequence[ReplayReport]
) -> tuple[str, bool]:
    """Returns the verdict against the strategy above, and whether it is not significant."""
    for (verdict, measure), one, other in zip(MEASURES, _totals(better), _totals(own), strict=True):
        if one == other:
            continue
        pairs = zip(better, own, strict=True)
        differences = [measure(worse) - measure(best) for best, worse in pairs]
        if verdict == VIOLATIONS or is_significant(differences):
            return f"{verdict} {above}", False
        return f"{verdict} {above} (not significant)", True
    return f"tied with {above}", True


def is_significant(differences: Sequence[float]) -> bool:
    """Returns whether paired differences are significant; see `rank`."""
    if sum(difference != 0 for difference in differences) < MIN_DIFFERENCES:
        return False
    random = Random(0)
    sums = sorted(sum(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    outside = RESAMPLES // 40
    return sums[outside] > 0 or sums[-outside - 1] < 0


def _figures(summary: StrategyTotals) -> str:
    parts = []
    if summary.violations:
        parts.append(f"{summary.violations:,} violations")
    parts.append(_refused(summary))
    if summary.context_used:
        parts.append(f"{summary.lost_context_share:.1%} of the context used later was lost")
    if summary.edits:
        parts.append(f"{summary.blind_edits:,} of {summary.edits:,} edits were blind")
    if summary.cost_ratio is not None and summary.strategy != KEEP_LAST:
        parts.append(f"costs {summary.cost_ratio:.0%} of {KEEP_LAST}")
    return "; ".join(parts)


def _refused(summary: StrategyTotals) -> str:
    if not summary.refused:
        return "every request fits"
    if summary.transcripts == 1:
        return f"the run is refused after {summary.refused_after:.0%} of it"
    of_all = f"{summary.refused:,} of {summary.transcripts:,} runs"
    if summary.refused == 1:
        return f"{of_all} is refused, after {summary.refused_after:.0%} of the run"
    return f"{of_all} are refused, at the median after {summary.refused_after:.0%} of the run"


def _note(baseline: StrategyTotals, common: int) -> str:
    if not common:
        return "no transcript could be replayed with all strategies"
    if not baseline.refused:
        return "all requests fit without collection: the window is large enough for these runs"
    return (
        f"without collection, {_refused(baseline)}: "
        f"{baseline.overflows:,} of {baseline.requests:,} requests do not fit"
    )
