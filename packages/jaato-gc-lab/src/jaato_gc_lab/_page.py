"""Renders the report as one self-contained HTML file, and its main chart as an SVG file."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from jaato_gc_lab._charts import CostBar, UsageChart, cost_bars, usage_chart
from jaato_gc_lab._comparison import StrategyTotals
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._contrast import ContrastChart, contrast_chart
from jaato_gc_lab._dots import MEASURES, DotPlot, Measure, dot_plots
from jaato_gc_lab._figures import counted
from jaato_gc_lab._headline import Headline, headline
from jaato_gc_lab._prices import Price
from jaato_gc_lab._provenance import provenance
from jaato_gc_lab._ranking import RULE, Ranking
from jaato_gc_lab._reports import Loss, ReplayReport
from jaato_gc_lab._runs import Runs
from jaato_gc_lab._stacks import SOURCES, SourcesChart, sources_chart
from jaato_gc_lab._templates import environment, template_text

DETAILED = 4
"""Default number of transcripts with charts."""
LOSSES = 8
"""Maximum number of listed losses per run."""


def report_page(
    reports: Iterable[ReplayReport],
    summaries: Iterable[StrategyTotals],
    rankings: Iterable[Ranking] = (),
    *,
    made_on: str = "",
    versions: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
    prices: Mapping[str, Price] | None = None,
    detailed: int = DETAILED,
) -> str:
    """Returns an HTML report of a comparison, with tables and charts.

    The page is self-contained: it loads no other files. All text from transcripts is escaped.

    Args:
        reports: The replays, of any transcripts, strategies and windows.
        summaries: One summary per strategy and window.
        rankings: One ranking per window. The first strategy of each is the recommended one.
        made_on: The date of the comparison.
        versions: Versions of the distributions, by name.
        skipped: Reasons by file or conversation that could not be replayed.
        prices: The prices by model, which split the cost of a run into parts; by default it is not
            split.
        detailed: Number of transcripts with charts. The others appear in the tables only.

    Raises:
        ValueError: ``reports`` is empty.
    """
    ranked = sorted(rankings, key=lambda ranking: ranking.context_limit)
    runs = Runs(list(reports), ranked)
    names = runs.transcripts_by_freed_tokens()[:detailed]
    first_limit = runs.first_limit()
    totals = list(summaries)
    page = Page(
        runs=runs,
        detailed=names,
        windows=[
            _window(runs, number, limit == first_limit, totals, ranked)
            for number, limit in enumerate(runs.context_limits)
        ],
        cells=[
            Cell(
                transcript_number=transcript_number,
                limit_number=limit_number,
                chosen=transcript_number == 0 and limit == first_limit,
                reports=of_cell,
                usage=usage_chart(of_cell, runs.colours),
                sources=sources_chart(of_cell, runs.colours),
                bars=cost_bars(of_cell, runs.colours, prices or {}),
            )
            for transcript_number, transcript in enumerate(names)
            for limit_number, limit in enumerate(runs.context_limits)
            if (of_cell := runs.of(transcript, limit))
        ],
        skipped=skipped or {},
        provenance=provenance(runs, made_on, versions or {}, prices or {}),
    )
    script = template_text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = environment().get_template("page.html.j2")
    return template.render(page=page, script=Markup(script), script_hash=f"sha256-{digest}")


def chart_svg(reports: Iterable[ReplayReport], rankings: Iterable[Ranking] = ()) -> str:
    """Returns the main chart of the report as a standalone SVG document.

    It shows the tokens of each request without collection and with the recommended strategy, for
    the window and the run that the report shows first. The chart has its own background and follows
    the reader's light or dark colour scheme.

    Args:
        reports: The replays, as for `report_page`.
        rankings: One ranking per window. The first strategy of each is the recommended one.

    Raises:
        ValueError: ``reports`` is empty.
    """
    runs = Runs(list(reports), rankings)
    limit = runs.first_limit()
    shown = runs.most_telling(limit) or runs.of(runs.transcripts[0], limit)
    chart = contrast_chart(shown, runs.colours)
    return environment().get_template("chart.svg.j2").render(chart=chart)


@dataclass(frozen=True, slots=True)
class Window:
    """What all runs have in common in one window.

    Args:
        number: Position of the window, starting at 0.
        context_limit: Window size in tokens.
        chosen: Whether the page shows this window first.
        headline: The main figures, or ``None`` if there is nothing to compare.
        contrast: The main chart, or ``None`` if no run can fit.
        dots: The dot plots.
        dot_runs: Number of runs that the dot plots cover.
        ranking: The ranking, or ``None``.
        rows: Totals of each strategy, in ranking order.
    """

    number: int
    context_limit: int
    chosen: bool
    headline: Headline | None
    contrast: ContrastChart | None
    dots: list[DotPlot]
    dot_runs: int
    ranking: Ranking | None
    rows: list[StrategyTotals]

    @property
    def highest_cost(self) -> float:
        """The highest cost of a strategy, or 1 if all are 0."""
        return max((row.cost for row in self.rows), default=0.0) or 1.0


def _window(
    runs: Runs,
    number: int,
    chosen: bool,
    summaries: Sequence[StrategyTotals],
    rankings: Sequence[Ranking],
) -> Window:
    limit = runs.context_limits[number]
    order = runs.ranked(limit)
    own = [each for each in summaries if each.context_limit == limit and each.strategy in order]
    plots, dot_runs = dot_plots(runs, limit)
    telling = runs.most_telling(limit)
    return Window(
        number=number,
        context_limit=limit,
        chosen=chosen,
        headline=headline(runs, limit),
        contrast=contrast_chart(telling, runs.colours) if telling else None,
        dots=plots,
        dot_runs=dot_runs,
        ranking=next((each for each in rankings if each.context_limit == limit), None),
        rows=sorted(own, key=lambda each: order.index(each.strategy)),
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """The charts and tables of one transcript in one window."""

    transcript_number: int
    limit_number: int
    chosen: bool
    reports: Sequence[ReplayReport]
    usage: UsageChart
    sources: SourcesChart
    bars: list[CostBar]

    @property
    def losses(self) -> list[tuple[ReplayReport, Loss]]:
        """First losses of each strategy."""
        return [(report, loss) for report in self.reports for loss in report.losses[:LOSSES]]

    @property
    def losses_left_out(self) -> dict[str, int]:
        """Number of losses that are not listed, by strategy."""
        left_out = {report.strategy: len(report.losses) - LOSSES for report in self.reports}
        return {strategy: count for strategy, count in left_out.items() if count > 0}


@dataclass(frozen=True)
class Page:
    """The data of the report template."""

    runs: Runs
    detailed: list[str]
    windows: list[Window]
    cells: list[Cell]
    skipped: Mapping[str, str]
    provenance: Mapping[str, str]
    rule: str = RULE
    measures: Sequence[Measure] = MEASURES

    @property
    def title(self) -> str:
        """Title of the report."""
        strategies = counted(len(self.runs.collecting), "strategy")
        return f"{strategies} compared on {counted(len(self.runs.transcripts), 'transcript')}"

    @property
    def currency(self) -> str:
        """Currency of all costs."""
        return self.runs.reports[0].currency

    @property
    def requests(self) -> int:
        """Total number of requests in all transcripts."""
        longest = dict.fromkeys(self.runs.transcripts, 0)
        for report in self.runs.reports:
            longest[report.transcript] = max(longest[report.transcript], len(report.requests))
        return sum(longest.values())

    @property
    def cannot_fit(self) -> dict[str, list[int]]:
        """Windows that the fixed content of a run exceeds, by transcript."""
        found: dict[str, list[int]] = {}
        for report in self.runs.reports:
            if report.cannot_fit:
                context_limits = found.setdefault(report.transcript, [])
                if report.context_limit not in context_limits:
                    context_limits.append(report.context_limit)
        return found

    @property
    def choices(self) -> list[str]:
        """Strategies with a timeline, in the ranking order of the window that is shown first."""
        limit = next(window.context_limit for window in self.windows if window.chosen)
        ranked = self.runs.ranked(limit)
        return [name for name in ranked if name != NONE] or ranked

    @cached_property
    def tones(self) -> dict[str, int]:
        """Colour numbers by source, the same in all charts."""
        drawn = {source for cell in self.cells for source in cell.sources.sources}
        for cell in self.cells:
            for panel in cell.usage.panels:
                drawn.update(source for mark in panel.marks for source, _, _ in mark.sources)
        return {source: n for n, source in enumerate((*SOURCES, *sorted(drawn - {*SOURCES})))}

    @property
    def left_out(self) -> str:
        """Note about transcripts without charts, or an empty string."""
        drawn, total = len(self.detailed), len(self.runs.transcripts)
        if drawn == total:
            return ""
        return (
            f"Charts show {drawn} of {total:,} transcripts, those with the most freed tokens. The"
            " tables contain all of them. Charts of long runs show every peak, but not every"
            " request."
        )
