"""Which strategy did best, in plain words, and whether that is more than chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from jaato_gc_lab._compare import Comparison, Summary
from jaato_gc_lab._replay import NONE
from jaato_gc_lab._reports import ReplayReport

RULE = (
    "Fewest violations first, then fewest overflows; among equals the least money, with looking up "
    "again what was lost."
)
"""What places are given by."""

RESAMPLES = 2_000
FEWEST_TO_TELL = 6
"""Of five coin tosses, all five fall on the same side once in sixteen times; of six, in 32."""

Measure = Callable[[ReplayReport], float]


@dataclass(frozen=True, slots=True)
class Place:
    """A strategy's place.

    Args:
        position: Its place, from 1 on.
        strategy: The strategy.
        summary: Its figures.
        reason: Why it stands here, in words.
        below_noise: Whether it differs from the one above by no more than chance may have done.
    """

    position: int
    strategy: str
    summary: Summary
    reason: str
    below_noise: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """The strategies of one window, the best first.

    Args:
        limit: The window, in tokens.
        places: The strategies.
        note: What to know before choosing, in words.
    """

    limit: int
    places: list[Place]
    note: str


def rank(comparison: Comparison) -> list[Ranking]:
    """Rank the strategies of each window.

    The rule is `RULE`. What was lost counts in money: for every request that lacked a name or a
    file, one more request is priced, and every file to be read again. That is the least that a loss
    can cost; the worst is a wrong answer, so look at the regret too.

    Two neighbours differ by more than noise if, of 2,000 samples drawn from the transcripts with
    repetition, 95 % agree on which of the two is better (a paired bootstrap, always of the same
    random numbers), and if they differ on six transcripts or more. Violations are faults, and never
    noise. Only transcripts that all strategies could be replayed on count.
    """
    return [_rank(comparison, limit) for limit in comparison.limits]


def _rank(comparison: Comparison, limit: int) -> Ranking:
    names = [name for name in comparison.strategies if name != NONE]
    own = {name: comparison.reports_of(name, limit) for name in comparison.strategies}
    common = set.intersection(*(set(reports) for reports in own.values())) if own else set()
    runs = {name: [own[name][key] for key in sorted(common)] for name in names}
    ordered = sorted(names, key=lambda name: (*_totals(runs[name]), name))
    places: list[Place] = []
    for position, name in enumerate(ordered, 1):
        summary = comparison.summary(name, limit)
        reason, below_noise = _figures(summary), False
        if position > 1:
            above = ordered[position - 2]
            verdict, below_noise = _against(above, runs[above], runs[name])
            reason = f"{reason}; {verdict}"
        places.append(Place(position, name, summary, reason, below_noise))
    return Ranking(limit, places, _note(comparison.summary(NONE, limit), len(common)))


MEASURES: tuple[tuple[str, Measure], ...] = (
    ("violations", lambda report: len(report.violations)),
    ("overflows", lambda report: report.overflows),
    ("money", lambda report: report.total_cost),
)
"""What decides, the most important first."""


def _totals(reports: Sequence[ReplayReport]) -> tuple[float, ...]:
    return tuple(round(sum(map(measure, reports)), 9) for _, measure in MEASURES)


def _against(
    above: str, better: Sequence[ReplayReport], own: Sequence[ReplayReport]
) -> tuple[str, bool]:
    """What sets a strategy apart from the one above it, and whether that may be chance."""
    for (what, measure), one, other in zip(MEASURES, _totals(better), _totals(own), strict=True):
        if one == other:
            continue
        pairs = zip(better, own, strict=True)
        differences = [measure(worse) - measure(best) for best, worse in pairs]
        if what == "violations" or is_beyond_noise(differences):
            return f"behind {above} by {what}", False
        return f"behind {above} by {what}, but the difference is below noise", True
    return f"no different from {above}", True


def is_beyond_noise(differences: Sequence[float]) -> bool:
    """Whether paired differences are more than chance: see `rank`."""
    if sum(difference != 0 for difference in differences) < FEWEST_TO_TELL:
        return False
    random = Random(0)
    sums = sorted(sum(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    outside = RESAMPLES // 40
    return sums[outside] > 0 or sums[-outside - 1] < 0


def _figures(summary: Summary) -> str:
    said = []
    if summary.violations:
        said.append(f"{summary.violations:,} violations")
    said.append(
        f"{summary.overflows:,} of {summary.requests:,} requests do not fit"
        if summary.overflows
        else "every request fits"
    )
    money = f"{summary.cost:,.2f} {summary.currency}"
    if summary.saving is not None:
        more_or_less = "less" if summary.saving >= 0 else "more"
        money += f" ({abs(summary.saving):.0%} {more_or_less} than collecting nothing)"
    if summary.lookup_cost:
        money += f" and {summary.lookup_cost:,.2f} to look up again what was lost"
    said.append(money)
    said.append(
        f"{summary.regret:.1%} of the names used later were gone"
        if summary.losses
        else "no name used later was gone"
    )
    if summary.rereads:
        files = "1 file" if summary.rereads == 1 else f"{summary.rereads:,} files"
        said.append(f"{files} to read again")
    return "; ".join(said)


def _note(baseline: Summary, common: int) -> str:
    if not common:
        return "there is no transcript that all strategies could be replayed on"
    if not baseline.overflows:
        return "everything fits without collecting: this window is large enough for these runs"
    return (
        f"without collecting, {baseline.overflows:,} of {baseline.requests:,} requests would not "
        f"have fit, and all of them together would have cost {baseline.cost:,.2f} "
        f"{baseline.currency}"
    )
