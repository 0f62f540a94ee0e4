"""The report as one HTML file, and its main chart as an SVG file: nothing to load from anywhere."""

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
from jaato_gc_lab._compare import Summary
from jaato_gc_lab._figures import counted
from jaato_gc_lab._ranking import RULE, Ranking
from jaato_gc_lab._reports import Loss, ReplayReport
from jaato_gc_lab._stacks import SOURCES, SourcesChart, sources_chart
from jaato_gc_lab._templates import STRATEGY_COLOURS, environment, template_text

DETAILED = 4
"""How many transcripts have charts, if not asked for otherwise."""
BUSY = 3
"""Collections from which on a chart is worth looking at."""
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
    """A page that shows what was compared, what came of it, and how it went request by request.

    It loads nothing from anywhere and can be opened from a file. Text of transcripts is shown as
    text, whatever is in it.

    Args:
        reports: What was replayed: any transcripts, strategies and windows.
        summaries: The lines of the comparison, one for each strategy and window.
        rankings: The ranking in each window.
        made_on: The date.
        versions: Versions of distributions, by name.
        skipped: What could not be replayed, and why.
        cost_parts: What a run's cost consists of; by default it is shown in one piece.
        detailed: How many transcripts to draw. The others are in the tables only.

    Raises:
        ValueError: There are no reports.
    """
    runs = Runs(list(reports))
    page = Page(runs, runs.telling()[:detailed], list(summaries), list(rankings), skipped or {})
    page.facts["Date"] = made_on
    page.facts["Versions"] = ", ".join(f"{name} {v}" for name, v in (versions or {}).items())
    page.facts["Prices of"] = ", ".join(sorted({report.model for report in runs.reports}))
    for number, transcript in enumerate(page.detailed):
        for limit_number, limit in enumerate(runs.limits):
            if of_cell := runs.of(transcript, limit):
                page.cells.append(
                    Cell(
                        transcript_number=number,
                        limit_number=limit_number,
                        chosen=number == 0 and limit == page.first_limit,
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
    limit: int | None = None,
) -> str:
    """The main chart, how full the window was, as an SVG file of its own.

    It has its own background, and follows the reader's choice of light or dark.

    Args:
        reports: What was replayed.
        transcript: Which transcript to draw; by default the one from which most was collected.
        limit: Which window; by default the largest in which every strategy was busy.

    Raises:
        ValueError: There are no reports, or none of that transcript and window.
    """
    runs = Runs(list(reports))
    name = runs.telling()[0] if transcript is None else transcript
    window = runs.telling_limit(name) if limit is None else limit
    of_cell = runs.of(name, window)
    if not of_cell:
        raise ValueError(f"there is no report of {name!r} in a window of {window:,} tokens")
    chart = usage_chart(of_cell, runs.colours)
    return environment().get_template("chart.svg.j2").render(chart=chart)


class Runs:
    """Reports, looked at from all sides.

    Args:
        reports: The reports.

    Raises:
        ValueError: There are none.
    """

    def __init__(self, reports: Sequence[ReplayReport]) -> None:
        if not reports:
            raise ValueError("there are no reports to show")
        self.reports = reports
        self.limits = sorted({report.limit for report in reports})
        self.strategies = list(dict.fromkeys(report.strategy for report in reports))
        self.collecting = [name for name in self.strategies if name != BASELINE]
        self.colours = {name: n % STRATEGY_COLOURS for n, name in enumerate(self.collecting)}
        self.colours[BASELINE] = STRATEGY_COLOURS
        self.by_transcript: dict[str, list[ReplayReport]] = {}
        for report in sorted(reports, key=lambda report: (report.transcript.lower(), report.limit)):
            self.by_transcript.setdefault(report.transcript, []).append(report)

    def of(self, transcript: str, limit: int) -> list[ReplayReport]:
        """The reports of one transcript in one window."""
        return [each for each in self.by_transcript.get(transcript, ()) if each.limit == limit]

    def telling(self) -> list[str]:
        """The transcripts, the one from which most was collected first."""
        return sorted(
            self.by_transcript,
            key=lambda name: -sum(r.freed_by_reason.total() for r in self.by_transcript[name]),
        )

    def telling_limit(self, transcript: str) -> int:
        """The largest window in which every strategy had something to do; else the smallest."""
        for limit in reversed(self.limits):
            counts = [
                len(report.collections)
                for report in self.of(transcript, limit)
                if report.strategy != BASELINE
            ]
            if counts and min(counts) >= BUSY:
                return limit
        return self.limits[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """One transcript in one window, as the page shows it."""

    transcript_number: int
    limit_number: int
    chosen: bool
    reports: Sequence[ReplayReport]
    usage: UsageChart
    sources: SourcesChart
    bars: list[CostBar]

    @property
    def request_count(self) -> int:
        """How many requests the transcript has."""
        return max(len(report.requests) for report in self.reports)

    @property
    def samples(self) -> list[tuple[int, list[int | None]]]:
        """Some requests, evenly spread, with their tokens under each strategy."""
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
        """Whether there was any collection."""
        return any(panel.marks for panel in self.usage.panels)

    @property
    def marks_left_out(self) -> bool:
        """Whether there were more collections than are shown one by one."""
        return any(len(p.marks) < len(p.report.collections) for p in self.usage.panels)

    @property
    def losses(self) -> list[tuple[ReplayReport, Loss]]:
        """The first losses of each strategy."""
        return [(report, loss) for report in self.reports for loss in report.losses[:LOSSES]]

    @property
    def losses_left_out(self) -> dict[str, int]:
        """How many are not among them, by strategy."""
        left_out = {report.strategy: len(report.losses) - LOSSES for report in self.reports}
        return {strategy: count for strategy, count in left_out.items() if count > 0}


@dataclass(slots=True)
class Page:
    """Everything that the template shows."""

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
        """What was compared, in a few words."""
        strategies = counted(len(self.runs.collecting), "strategy")
        return f"{strategies} compared on {counted(len(self.runs.by_transcript), 'transcript')}"

    @property
    def currency(self) -> str:
        """Of all money."""
        return self.runs.reports[0].currency

    @property
    def requests(self) -> int:
        """How many requests all transcripts have together."""
        return sum(
            max(len(report.requests) for report in reports)
            for reports in self.runs.by_transcript.values()
        )

    @property
    def first_limit(self) -> int:
        """The window that the charts show first."""
        return self.runs.telling_limit(self.detailed[0]) if self.detailed else 0

    @property
    def rows(self) -> dict[int, list[tuple[Summary, float]]]:
        """Summaries by window, in the order of the ranking, the run without collection at the end.

        Beside each is its cost, in percent of the highest in that window.
        """
        ranks = {
            (ranking.limit, place.strategy): place.position
            for ranking in self.rankings
            for place in ranking.places
        }

        def rank(summary: Summary) -> tuple[bool, int]:
            return summary.strategy == BASELINE, ranks.get((summary.limit, summary.strategy), 0)

        rows: dict[int, list[tuple[Summary, float]]] = {}
        for limit in sorted({summary.limit for summary in self.summaries}):
            of_limit = sorted((s for s in self.summaries if s.limit == limit), key=rank)
            highest = max(summary.cost for summary in of_limit) or 1.0
            rows[limit] = [(summary, 100 * summary.cost / highest) for summary in of_limit]
        return rows

    @property
    def tones(self) -> dict[str, int]:
        """A colour for each source, the same in all charts."""
        drawn = {source for cell in self.cells for source in cell.sources.sources}
        return {source: n for n, source in enumerate((*SOURCES, *sorted(drawn - {*SOURCES})))}

    @property
    def left_out(self) -> str:
        """What has no charts, in words."""
        drawn, all_of_them = len(self.detailed), len(self.runs.by_transcript)
        if drawn == all_of_them:
            return ""
        return (
            f"Charts are drawn for {drawn} of {all_of_them:,} transcripts, those from which the"
            " most was collected. The others are in the tables. Long runs are drawn with all their"
            " peaks and falls, but not with every request."
        )
