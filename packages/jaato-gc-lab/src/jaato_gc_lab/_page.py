"""Renders the report as one self-contained HTML file, and its main chart as an SVG file."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from jaato_gc_lab._charts import (
    BASELINE,
    CostBar,
    CostParts,
    UsageChart,
    cost_bars,
    usage_chart,
)
from jaato_gc_lab._comparison import Summary
from jaato_gc_lab._figures import counted
from jaato_gc_lab._ranking import RULE, Ranking
from jaato_gc_lab._reports import Loss, ReplayReport
from jaato_gc_lab._stacks import SOURCES, SourcesChart, sources_chart
from jaato_gc_lab._templates import STRATEGY_COLOURS, environment, template_text

DETAILED = 4
"""Default number of transcripts with charts."""
MIN_COLLECTIONS = 3
"""Minimum number of collections per strategy for the default window of the charts."""
SAMPLES = 12
LOSSES = 8


def report_page(
    reports: Iterable[ReplayReport],
    summaries: Iterable[Summary],
    rankings: Iterable[Ranking] = (),
    *,
    made_on: str = "",
    versions: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
    cost_parts: CostParts | None = None,
    detailed: int = DETAILED,
) -> str:
    """Returns an HTML report of a comparison, with tables and charts.

    The page is self-contained: it loads no other files. All text from transcripts is escaped.

    Args:
        reports: The replays, of any transcripts, strategies and windows.
        summaries: One summary per strategy and window.
        rankings: One ranking per window.
        made_on: The date of the comparison.
        versions: Versions of the distributions, by name.
        skipped: Reasons by file or conversation that could not be replayed.
        cost_parts: Returns the parts of a run's cost; by default the cost is not split.
        detailed: Number of transcripts with charts. The others appear in the tables only.

    Raises:
        ValueError: ``reports`` is empty.
    """
    runs = Runs(list(reports))
    detailed_names = runs.transcripts_by_freed_tokens()[:detailed]
    page = Page(runs, detailed_names, list(summaries), list(rankings), skipped or {})
    page.facts["Date"] = made_on
    page.facts["Versions"] = ", ".join(f"{name} {v}" for name, v in (versions or {}).items())
    page.facts["Prices"] = ", ".join(sorted({report.model for report in runs.reports}))
    for number, transcript in enumerate(page.detailed):
        for limit_number, context_limit in enumerate(runs.context_limits):
            if of_cell := runs.of(transcript, context_limit):
                page.cells.append(
                    Cell(
                        transcript_number=number,
                        limit_number=limit_number,
                        chosen=number == 0 and context_limit == page.first_context_limit,
                        reports=of_cell,
                        usage=usage_chart(of_cell, runs.colours),
                        sources=sources_chart(of_cell, runs.colours),
                        bars=cost_bars(of_cell, runs.colours, cost_parts),
                    )
                )
    script = template_text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = environment().get_template("page.html.j2")
    return template.render(page=page, script=Markup(script), script_hash=f"sha256-{digest}")


def chart_svg(
    reports: Iterable[ReplayReport],
    *,
    transcript: str | None = None,
    context_limit: int | None = None,
) -> str:
    """Returns the window usage chart as a standalone SVG document.

    The chart has its own background and follows the reader's light or dark colour scheme.

    Args:
        reports: The replays.
        transcript: Name of the transcript; by default the one with the most freed tokens.
        context_limit: Window size; by default the largest in which every strategy collected three
            times.

    Raises:
        ValueError: ``reports`` is empty or has no report of that transcript and window.
    """
    runs = Runs(list(reports))
    name = runs.transcripts_by_freed_tokens()[0] if transcript is None else transcript
    window = runs.default_limit(name) if context_limit is None else context_limit
    of_cell = runs.of(name, window)
    if not of_cell:
        raise ValueError(f"no report of {name!r} in a window of {window:,} tokens")
    chart = usage_chart(of_cell, runs.colours)
    return environment().get_template("chart.svg.j2").render(chart=chart)


class Runs:
    """Reports grouped by transcript, strategy and window.

    Args:
        reports: The reports.

    Raises:
        ValueError: ``reports`` is empty.
    """

    def __init__(self, reports: Sequence[ReplayReport]) -> None:
        if not reports:
            raise ValueError("no reports to show: pass at least one")
        self.reports = reports
        self.context_limits = sorted({report.context_limit for report in reports})
        self.strategies = list(dict.fromkeys(report.strategy for report in reports))
        self.collecting = [name for name in self.strategies if name != BASELINE]
        self.colours = {name: n % STRATEGY_COLOURS for n, name in enumerate(self.collecting)}
        self.colours[BASELINE] = STRATEGY_COLOURS
        self.by_transcript: dict[str, list[ReplayReport]] = {}
        for report in sorted(
            reports, key=lambda report: (report.transcript.lower(), report.context_limit)
        ):
            self.by_transcript.setdefault(report.transcript, []).append(report)

    def of(self, transcript: str, context_limit: int) -> list[ReplayReport]:
        """Returns the reports of one transcript in one window."""
        return [
            each
            for each in self.by_transcript.get(transcript, ())
            if each.context_limit == context_limit
        ]

    def transcripts_by_freed_tokens(self) -> list[str]:
        """Returns the names of the transcripts, most freed tokens first."""
        return sorted(
            self.by_transcript,
            key=lambda name: -sum(r.freed_by_reason.total() for r in self.by_transcript[name]),
        )

    def default_limit(self, transcript: str) -> int:
        """Returns the largest window with enough collections of every strategy, or the smallest."""
        for context_limit in reversed(self.context_limits):
            counts = [
                len(report.collections)
                for report in self.of(transcript, context_limit)
                if report.strategy != BASELINE
            ]
            if counts and min(counts) >= MIN_COLLECTIONS:
                return context_limit
        return self.context_limits[0]


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
    def request_count(self) -> int:
        """Number of requests in the transcript."""
        return max(len(report.requests) for report in self.reports)

    @property
    def samples(self) -> list[tuple[int, list[int | None]]]:
        """Evenly spaced requests with their tokens for each strategy."""
        last = self.request_count - 1
        positions = sorted({last * n // (SAMPLES - 1) for n in range(SAMPLES)} if last > 0 else {0})
        return [
            (
                position,
                [
                    report.requests[position].tokens if position < len(report.requests) else None
                    for report in self.reports
                ],
            )
            for position in positions
        ]

    @property
    def collected(self) -> bool:
        """Whether any strategy collected."""
        return any(panel.marks for panel in self.usage.panels)

    @property
    def marks_left_out(self) -> bool:
        """Whether some collections have no mark."""
        return any(len(p.marks) < len(p.report.collections) for p in self.usage.panels)

    @property
    def losses(self) -> list[tuple[ReplayReport, Loss]]:
        """First losses of each strategy."""
        return [(report, loss) for report in self.reports for loss in report.losses[:LOSSES]]

    @property
    def losses_left_out(self) -> dict[str, int]:
        """Number of losses that are not listed, by strategy."""
        left_out = {report.strategy: len(report.losses) - LOSSES for report in self.reports}
        return {strategy: count for strategy, count in left_out.items() if count > 0}


@dataclass(slots=True)
class Page:
    """The data of the report template."""

    runs: Runs
    detailed: list[str]
    summaries: list[Summary]
    rankings: list[Ranking]
    skipped: Mapping[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    rule: str = RULE

    @property
    def title(self) -> str:
        """Title of the report."""
        strategies = counted(len(self.runs.collecting), "strategy")
        return f"{strategies} compared on {counted(len(self.runs.by_transcript), 'transcript')}"

    @property
    def currency(self) -> str:
        """Currency of all costs."""
        return self.runs.reports[0].currency

    @property
    def requests(self) -> int:
        """Total number of requests in all transcripts."""
        return sum(
            max(len(report.requests) for report in reports)
            for reports in self.runs.by_transcript.values()
        )

    @property
    def cannot_fit(self) -> dict[str, list[int]]:
        """Windows that the fixed content of a run exceeds, by transcript."""
        found: dict[str, list[int]] = {}
        for report in self.runs.reports:
            context_limits = found.setdefault(report.transcript, [])
            if report.cannot_fit and report.context_limit not in context_limits:
                context_limits.append(report.context_limit)
        return {name: context_limits for name, context_limits in found.items() if context_limits}

    @property
    def first_context_limit(self) -> int:
        """Window of the initially visible charts."""
        return self.runs.default_limit(self.detailed[0]) if self.detailed else 0

    @property
    def rows(self) -> dict[int, list[tuple[Summary, float]]]:
        """Summaries by window in ranking order, with the run without collection last.

        Each summary comes with its cost in percent of the highest cost in the window.
        """
        ranks = {
            (ranking.context_limit, place.strategy): place.position
            for ranking in self.rankings
            for place in ranking.places
        }

        def rank(summary: Summary) -> tuple[bool, int]:
            return summary.strategy == BASELINE, ranks.get(
                (summary.context_limit, summary.strategy), 0
            )

        rows: dict[int, list[tuple[Summary, float]]] = {}
        for context_limit in sorted({summary.context_limit for summary in self.summaries}):
            of_limit = sorted(
                (s for s in self.summaries if s.context_limit == context_limit), key=rank
            )
            highest = max(summary.cost for summary in of_limit) or 1.0
            rows[context_limit] = [(summary, 100 * summary.cost / highest) for summary in of_limit]
        return rows

    @property
    def tones(self) -> dict[str, int]:
        """Colour numbers by source, the same in all charts."""
        drawn = {source for cell in self.cells for source in cell.sources.sources}
        return {source: n for n, source in enumerate((*SOURCES, *sorted(drawn - {*SOURCES})))}

    @property
    def left_out(self) -> str:
        """Note about transcripts without charts, or an empty string."""
        drawn, total = len(self.detailed), len(self.runs.by_transcript)
        if drawn == total:
            return ""
        return (
            f"Charts show {drawn} of {total:,} transcripts, those with the most freed tokens. The"
            " tables contain all of them. Charts of long runs show every peak, but not every"
            " request."
        )
