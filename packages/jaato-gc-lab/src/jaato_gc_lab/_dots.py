"""Dot plots of what the strategies lost and cost, with confidence intervals over the runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, fsum, log10

from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._intervals import Bootstrap, Interval, wilson
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._runs import Runs

ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Ends of a scale, times a power of ten."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of runs, as the ratio of two sums.

    Args:
        name: Name of the measure.
        definition: What it counts, in words.
        of: Returns the two numbers of one run.
        is_share: Whether the ratio is a share, and shown in percent.
    """

    name: str
    definition: str
    of: Callable[[ReplayReport], tuple[float, float]]
    is_share: bool = True


REFUSED = Measure(
    "Refused runs",
    "Share of the runs with a request that does not fit into the window. A run counts as over from"
    " there: everything that it uses later counts as lost.",
    lambda report: (report.refused_at is not None, 1),
)
MEASURES = (
    REFUSED,
    Measure(
        "Blind edits",
        "Share of the edits that quote text which was in the context and no longer is. An agent"
        " could read the file again first.",
        lambda report: (len(report.blind_edits), report.edits),
    ),
    Measure(
        "Lost context",
        "Share of the names in calls that are no longer next to the same text as in the original."
        " A name in a summary or a list of names does not count.",
        lambda report: (report.context_lost, report.context_used),
    ),
    Measure(
        "Lost names",
        "Share of the used names (paths, identifiers, numbers) that are nowhere in the context"
        " any more. A list of words would keep all names and no content.",
        lambda report: (report.names_lost, report.names_used),
    ),
    Measure(
        "Re-reads per run",
        "Files that a run used after their content was removed. An agent would have to read them"
        " again.",
        lambda report: (report.rereads, 1),
        is_share=False,
    ),
)
COST = (
    "Cost compared with keep-last",
    "Cost in percent of the cost with keep-last, which removes the oldest exchanges, over the runs"
    " that all strategies finish.",
)


@dataclass(frozen=True, slots=True)
class Dot:
    """The value of one strategy, with positions in percent of the plot's width.

    Args:
        strategy: Name of the strategy.
        colour: Colour number of the strategy.
        value: The value, or ``None`` if nothing was measured.
        interval: Its confidence interval, or ``None`` for too few runs.
        x: Position of the value; 100 if it is off the scale.
        low: Position of the interval's lower end.
        high: Position of the interval's upper end.
        is_off_scale: Whether the value is larger than the end of the scale.
    """

    strategy: str
    colour: int
    value: float | None
    interval: Interval | None
    x: float
    low: float
    high: float
    is_off_scale: bool


@dataclass(frozen=True, slots=True)
class DotPlot:
    """One measure of all strategies.

    Args:
        name: Name of the measure.
        definition: What it counts, in words.
        dots: One dot per strategy, in ranking order.
        start: Value at the left end of the scale.
        end: Value at the right end of the scale.
        is_share: Whether values are shown in percent.
        reference: Position of 100 %, or ``None``.
    """

    name: str
    definition: str
    dots: list[Dot]
    start: float
    end: float
    is_share: bool
    reference: float | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether any strategy has a confidence interval."""
        return any(dot.interval for dot in self.dots)


def dot_plots(runs: Runs, context_limit: int) -> tuple[list[DotPlot], int]:
    """Returns the dot plots of a window and the number of runs that they cover.

    Only runs that can fit and were replayed with all strategies count. A measure has no plot if
    there was nothing to measure, such as edits in runs that edit nothing.
    """
    own = runs.comparable(context_limit, runs.ranked(context_limit))
    count = len(next(iter(own.values()), []))
    bootstrap = Bootstrap(count)
    plots = []
    for measure in MEASURES if count else ():
        values = {}
        for name, reports in own.items():
            parts, wholes = zip(*map(measure.of, reports), strict=True)
            interval = (
                wilson(round(sum(parts)), count)
                if measure is REFUSED
                else bootstrap.ratio(parts, wholes)
            )
            values[name] = _ratio(parts, wholes), interval
        if any(value is not None for value, _ in values.values()):
            plots.append(_plot(measure.name, measure.definition, values, runs, measure.is_share))
    if KEEP_LAST in own and (cost := _cost(own, runs)):
        plots.append(cost)
    return plots, count


Values = dict[str, tuple[float | None, Interval | None]]


def _plot(name: str, definition: str, values: Values, runs: Runs, is_share: bool) -> DotPlot:
    ends = [_end(value, interval) for who, (value, interval) in values.items() if who != NONE]
    end = _round_up(max(ends or [_end(*each) for each in values.values()], default=0.0))
    end = min(end or 0.01, 1.0) if is_share else end or 1.0
    return DotPlot(name, definition, _dots(values, runs, 0.0, end), 0.0, end, is_share)


def _cost(own: dict[str, list[ReplayReport]], runs: Runs) -> DotPlot | None:
    """Returns the plot of the costs, over the runs that all strategies finish."""
    names = [name for name in own if name != NONE]
    finished = [
        position
        for position in range(len(own[KEEP_LAST]))
        if all(own[name][position].refused_at is None for name in names)
    ]
    simple = [own[KEEP_LAST][position].cost for position in finished]
    if not sum(simple):
        return None
    bootstrap = Bootstrap(len(finished))
    values: Values = {}
    for name in names:
        costs = [own[name][position].cost for position in finished]
        interval = None if name == KEEP_LAST else bootstrap.ratio(costs, simple)
        values[name] = _ratio(costs, simple), interval
    reached = [end for value, interval in values.values() for end in (value, *(interval or ()))]
    known = [end for end in reached if end is not None]
    start, end = floor(min(known) * 20 - 0.5) / 20, ceil(max(known) * 20 + 0.5) / 20
    dots = _dots(values, runs, start, end)
    reference = round(100 * (1 - start) / (end - start), 2)
    return DotPlot(*COST, dots, start, end, is_share=True, reference=reference)


def _dots(values: Values, runs: Runs, start: float, end: float) -> list[Dot]:
    def place(value: float) -> float:
        return round(100 * min(max((value - start) / (end - start), 0.0), 1.0), 2)

    return [
        Dot(
            strategy=name,
            colour=runs.colours[name],
            value=value,
            interval=interval,
            x=place(value or 0.0),
            low=place(interval.low if interval else value or 0.0),
            high=place(interval.high if interval else value or 0.0),
            is_off_scale=(value or 0.0) > end,
        )
        for name, (value, interval) in values.items()
    ]


def _ratio(parts: Sequence[float], wholes: Sequence[float]) -> float | None:
    whole = fsum(wholes)
    return fsum(parts) / whole if whole else None


def _end(value: float | None, interval: Interval | None) -> float:
    return interval.high if interval else value or 0.0


def _round_up(value: float) -> float:
    """Returns the smallest round number that is not below a value."""
    if not value:
        return 0.0
    power = 10.0 ** floor(log10(value))
    return next(power * each for each in ROUND if power * each >= value * (1 - 1e-9))
