"""Shared by compare, report, check and demo: runs the replays, prints tables, writes the report."""

import importlib.metadata
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from jaato_gc import GCConfig, GCError
from jaato_gc_lab._cli._drawing import progress, say, say_heading, say_item, say_table
from jaato_gc_lab._cli._text import clean, money, percent, seconds
from jaato_gc_lab._compare import CellResult, Comparison, Summary, compare
from jaato_gc_lab._figures import counted, number, short
from jaato_gc_lab._files import write_all
from jaato_gc_lab._prices import load_prices
from jaato_gc_lab._ranking import RULE, rank
from jaato_gc_lab._saved import SavedComparison

FEW = 8
"""Maximum number of listed reasons."""
NO_FILES = "no file to replay: pass files, or folders with files"
HEADINGS = (
    "strategy",
    "over-\nflows",
    "viola-\ntions",
    "collec-\ntions",
    "tokens\nsent",
    "cost,\n{currency}",
    "saved",
    "regret",
    "re-\nreads",
    "time",
)


def run_grid(
    files: Sequence[Path],
    strategies: Sequence[str] | None,
    limits: Sequence[int],
    *,
    config: GCConfig | None = None,
    model: str | None = None,
    prices: Path | None = None,
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
    price = table.of(model)
    with progress("loading conversations") as advance:

        def on_progress(done: int, total: int, latest: CellResult) -> None:
            advance(done, total, latest.cell.transcript)

        comparison = compare(
            files,
            strategies,
            limits,
            config=config,
            model=model,
            prices=table,
            workers=workers,
            on_progress=on_progress,
        )
    if not comparison.results:
        raise GCError(_no_results(comparison))
    return SavedComparison(comparison, price, date.today().isoformat(), versions())


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
            each.strategy: each for each in comparison.summaries() if each.limit == ranking.limit
        }
        baseline = [name for name in of_limit if name not in order]
        rows = [of_limit[name] for name in (*order, *baseline)]
        transcripts = max((row.transcripts for row in rows), default=0)
        say_heading(
            f"Window of {number(ranking.limit)} tokens, {counted(transcripts, 'transcript')}, "
            f"{counted(max(row.requests for row in rows), 'request')}"
        )
        currency = next((row.currency for row in rows if row.currency), "")
        headings = [heading.format(currency=currency) for heading in HEADINGS]
        say_table(headings, map(_row, rows), gap=1)
        say()
        for place in ranking.places:
            say_item(f"{place.strategy}: {place.reason}", f"{place.position}.")
        say(f"{ranking.note[:1].upper()}{ranking.note[1:]}.")
    say()
    say(f"Ranking: {RULE[:1].lower()}{RULE[1:]}")


def _row(summary: Summary) -> tuple[object, ...]:
    return (
        summary.strategy,
        number(summary.overflows),
        number(summary.violations),
        number(summary.collections),
        short(summary.input_tokens),
        money(summary.cost),
        percent(summary.saving) if summary.strategy != "none" else "-",
        percent(summary.regret),
        number(summary.rereads),
        seconds(summary.seconds),
    )


def say_skipped(comparison: Comparison) -> None:
    """Prints the skipped files and the failed replays with their reasons."""
    if comparison.skipped:
        say_heading(f"Skipped: {number(len(comparison.skipped))}")
        _say_reasons(comparison.skipped)
    if comparison.failures:
        say_heading(f"Failed: {counted(len(comparison.failures), 'replay')}")
        _say_reasons(comparison.failed)


def _say_reasons(reasons: dict[str, str]) -> None:
    for name, reason in list(reasons.items())[:FEW]:
        say_item(clean(f"{name}: {reason}", 300))
    if len(reasons) > FEW:
        say(f"and {number(len(reasons) - FEW)} more")


def write_page(saved: SavedComparison, path: Path, svg: Path | None = None) -> None:
    """Writes the HTML report, and optionally its main chart as SVG.

    Raises:
        GCError: All replays failed.
    """
    from jaato_gc_lab._charts import cost_parts_at
    from jaato_gc_lab._page import chart_svg, report_page

    comparison = saved.comparison
    if not comparison.reports:
        first, reason = next(iter(comparison.failed.items()), ("comparison", "it has no replays"))
        raise GCError(f"can't write a report because all replays failed: {first}: {reason}")
    page = report_page(
        comparison.reports,
        comparison.summaries(),
        rank(comparison),
        made_on=saved.made_on,
        versions=saved.versions,
        skipped=comparison.skipped | comparison.failed,
        cost_parts=cost_parts_at(saved.price),
    )
    contents = {path: page.encode()}
    if svg is not None:
        contents[svg] = chart_svg(comparison.reports).encode()
    write_all(contents)
