"""Shared by compare, report, check and demo: runs the replays, prints tables, writes the report."""

import importlib.metadata
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from jaato_gc import GCConfig, GCError
from jaato_gc_lab._cli._drawing import draw, progress, say, say_heading, say_item
from jaato_gc_lab._cli._ending import say_unpriced
from jaato_gc_lab._columns import Columns
from jaato_gc_lab._compare import compare
from jaato_gc_lab._comparison import CellResult, Comparison, StrategyTotals
from jaato_gc_lab._figures import counted, number, percent, seconds, short
from jaato_gc_lab._files import write_all
from jaato_gc_lab._overhead import Overhead
from jaato_gc_lab._prices import Prices, load_prices
from jaato_gc_lab._ranking import RULE, rank
from jaato_gc_lab._saved import SavedComparison
from jaato_gc_lab._text import clean

FEW = 8
"""Maximum number of listed reasons."""
NO_FILES = "no file to replay: pass files, or folders with files"
HEADINGS = (
    "strategy",
    "refused\nruns",
    "blind\nedits",
    "lost\ncontext",
    "lost\nnames",
    "re-\nreads",
    "cost",
    "viola-\ntions",
    "tokens\nsent",
    "collec-\ntions",
    "time",
)
DROP = (10, 9, 8, 4, 5, 7, 6, 2, 3, 1)
"""Columns to leave out on a narrow terminal, the least important first."""


def run_grid(
    files: Sequence[Path],
    strategies: Sequence[str] | None,
    context_limits: Sequence[int],
    *,
    config: GCConfig | None = None,
    model: str | None = None,
    prices: Path | None = None,
    overhead: Overhead = "auto",
    workers: int | None = None,
) -> SavedComparison:
    """Replays all files with all strategies in all windows, with a progress bar.

    Raises:
        GCError: A file does not exist, or no file has a conversation.
    """
    missing = [path for path in files if not path.exists()]
    if missing:
        raise GCError(f"{missing[0]} does not exist: pass files or folders with recorded runs")
    table = load_prices(prices)
    with progress("loading conversations") as advance:

        def on_progress(done: int, total: int, latest: CellResult) -> None:
            advance(done, total, latest.cell.transcript)

        comparison = compare(
            files,
            strategies,
            context_limits,
            config=config,
            model=model,
            prices=table,
            overhead=overhead,
            workers=workers,
            on_progress=on_progress,
        )
    if not comparison.results:
        raise GCError(_no_results(comparison))
    return saved_today(comparison, table)


def saved_today(comparison: Comparison, table: Prices) -> SavedComparison:
    """Returns a comparison with its prices, the date of today and the versions."""
    prices = {name: table.of(name) for name in comparison.models}
    return SavedComparison(comparison, prices, date.today().isoformat(), versions())


def versions() -> dict[str, str]:
    """Returns the versions of the installed jaato-gc distributions, by name."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if isinstance(name, str) and name.lower().startswith("jaato-gc"):
            found[name.lower()] = distribution.version
    return dict(sorted(found.items()))


def _no_results(comparison: Comparison) -> str:
    if not comparison.skipped:
        return NO_FILES
    (first, reason), *others = comparison.skipped.items()
    rest = f" (and {number(len(others))} more)" if others else ""
    return f"no conversation to replay: {first}: {reason}{rest}"


def say_comparison(comparison: Comparison) -> None:
    """Prints the table and the ranking of each window."""
    for ranking in rank(comparison):
        order = [place.strategy for place in ranking.places]
        of_limit = {
            each.strategy: each
            for each in comparison.summaries()
            if each.context_limit == ranking.context_limit
        }
        baseline = [name for name in of_limit if name not in order]
        rows = [of_limit[name] for name in (*order, *baseline)]
        transcripts = max((row.transcripts for row in rows), default=0)
        say_heading(
            f"Window of {number(ranking.context_limit)} tokens, "
            f"{counted(transcripts, 'transcript')}, "
            f"{counted(max(row.requests for row in rows), 'request')}"
        )
        draw(Columns(map(_row, rows), HEADINGS, drop=DROP, gap=1))
        say()
        for place in ranking.places:
            say_item(f"{place.strategy}: {place.reason}", f"{place.position}.")
        say(f"{ranking.note[:1].upper()}{ranking.note[1:]}.")
    say_unfit(comparison)
    say()
    say_unpriced(comparison.reports)
    say(f"Ranking: {RULE[:1].lower()}{RULE[1:]}")


def _row(summary: StrategyTotals) -> tuple[str, ...]:
    return (
        summary.strategy,
        _refused(summary),
        percent(summary.blind_edit_share),
        percent(summary.lost_context_share),
        percent(summary.lost_name_share),
        number(summary.rereads),
        _cost(summary),
        number(summary.violations),
        short(summary.input_tokens),
        number(summary.collections),
        seconds(summary.seconds),
    )


def _refused(summary: StrategyTotals) -> str:
    if summary.refused_after is None:
        return "0"
    return f"{number(summary.refused)} ({summary.refused_after:.0%})"


def _cost(summary: StrategyTotals) -> str:
    if summary.cost_ratio is None:
        return "-"
    pairs = f" ({number(summary.cost_pairs)})" if summary.cost_pairs < summary.transcripts else ""
    return f"{summary.cost_ratio:.0%}{pairs}"


def say_unfit(comparison: Comparison) -> None:
    """Prints the runs whose fixed content exceeds the window."""
    for context_limit, names in comparison.cannot_fit.items():
        if names:
            runs = counted(len(names), "run")
            say_heading(
                f"Cannot fit into {number(context_limit)} tokens, and count for nothing: {runs}"
            )
            _say_list(names)


def say_skipped(comparison: Comparison) -> None:
    """Prints the skipped files and the failed replays with their reasons."""
    if comparison.skipped:
        say_heading(f"Skipped: {number(len(comparison.skipped))}")
        _say_list([f"{name}: {reason}" for name, reason in comparison.skipped.items()])
    if comparison.failures:
        say_heading(f"Failed: {counted(len(comparison.failures), 'replay')}")
        _say_list([f"{name}: {reason}" for name, reason in comparison.failed.items()])


def _say_list(items: Sequence[str]) -> None:
    for item in items[:FEW]:
        say_item(clean(item, 300))
    if len(items) > FEW:
        say(f"and {number(len(items) - FEW)} more")


def write_page(saved: SavedComparison, path: Path, svg: Path | None = None) -> None:
    """Writes the HTML report, and optionally its main chart as SVG.

    Raises:
        GCError: All replays failed.
    """
    from jaato_gc_lab._page import chart_svg, report_page

    comparison = saved.comparison
    if not comparison.reports:
        first, reason = next(iter(comparison.failed.items()), ("comparison", "it has no replays"))
        raise GCError(f"can't write a report because all replays failed: {first}: {reason}")
    rankings = rank(comparison)
    page = report_page(
        comparison.reports,
        comparison.summaries(),
        rankings,
        made_on=saved.made_on,
        versions=saved.versions,
        skipped=comparison.skipped | comparison.failed,
        prices=saved.prices,
    )
    contents = {path: page.encode()}
    if svg is not None:
        contents[svg] = chart_svg(comparison.reports, rankings).encode()
    write_all(contents)
