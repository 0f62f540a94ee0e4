"""``jaato-gc demo``: compares all strategies on the sample run."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from jaato_gc import GCError
from jaato_gc_lab._cli._demo_text import headline, rows
from jaato_gc_lab._cli._drawing import (
    draw,
    is_plain,
    progress,
    say,
    say_chart,
    say_heading,
    say_lines,
    say_title,
    width,
)
from jaato_gc_lab._cli._grid import saved_today, write_page
from jaato_gc_lab._cli._numbers import TOKENS
from jaato_gc_lab._cli._options import NEW, force_option
from jaato_gc_lab._columns import Columns
from jaato_gc_lab._compare import compare
from jaato_gc_lab._comparison import Comparison
from jaato_gc_lab._contenders import CONTENDERS, NONE
from jaato_gc_lab._figures import counted, short
from jaato_gc_lab._files import refuse_overwriting, unused_path, write_file
from jaato_gc_lab._prices import load_prices
from jaato_gc_lab._ranking import Ranking, rank
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._sample import sample_path
from jaato_gc_lab._saved import SavedComparison
from jaato_gc_lab._sawtooth import sawtooth

PAGE = "jaato-gc-demo.html"
NAME = "sample run"


@click.command("demo")
@click.option("-l", "--context-limit", type=TOKENS, default=32_000, help="Window size (32k).")
@click.option(
    "-o",
    "--out",
    type=NEW,
    metavar="FILE",
    help=f"Report file; by default {PAGE}, with a number if it exists.",
)
@click.option("--sample", type=NEW, metavar="FILE", help="Only write the sample run to FILE.")
@force_option
def command(context_limit: int, out: Path | None, sample: Path | None, force: bool) -> None:
    """Compare all strategies on a sample run and write the report.

    The sample is a fictional run of a coding agent in twelve turns: a bug, a red pipeline, a
    rename, and decisions of the user that matter late. It is replayed with every installed strategy
    in a window that is too small for it.

    \b
    Examples:
      jaato-gc demo
      jaato-gc demo --context-limit 16k --out demo.html
      jaato-gc demo --sample run.json.gz
    """
    refuse_overwriting([out, sample], force=force)
    if sample is not None:
        write_file(sample, sample_path().read_bytes())
        say(f"Wrote the sample run to {sample}")
        return
    prices = load_prices()
    # For a single run, starting processes takes longer than the replays.
    with ThreadPoolExecutor(1) as executor, progress("replaying") as advance:
        comparison = compare(
            [sample_path()],
            context_limits=[context_limit],
            prices=prices,
            executor=executor,
            on_progress=lambda done, total, latest: advance(done, total, latest.cell.strategy),
        )
    for report in comparison.reports:
        report.transcript = NAME
    if any(comparison.cannot_fit.values()):
        raise GCError(
            f"the sample run can't fit into {short(context_limit)} tokens: its system prompt, "
            "tools and user messages alone take more; try --context-limit 8k"
        )
    _show(comparison)
    page = _write(saved_today(comparison, prices), out, force=force)
    say_heading("Next")
    say_lines(
        (
            f"The report with all charts: {page}",
            "What fills a context of yours: jaato-gc inspect FILE",
            "All measures on your own logs: jaato-gc compare FILES",
        )
    )


def _show(comparison: Comparison) -> None:
    [ranking] = rank(comparison)
    reports = {report.strategy: report for report in comparison.reports}
    none, best = reports[NONE], reports[_recommended(ranking)]
    say_title(headline(none, best))
    say(
        f"The sample run: a coding agent fixes a bug, a pipeline and some names in "
        f"{counted(len(none.requests), 'request')}."
    )
    _show_chart(f"Without collection: peak of {short(none.peak_tokens)} tokens", none)
    if best.collections:
        collections = counted(len(best.collections), "collection")
        peak = short(best.peak_tokens)
        _show_chart(f"{best.strategy}: {collections}, peak of {peak} tokens", best)
    order = [place.strategy for place in ranking.places]
    shown = rows([comparison.summary(name, none.context_limit) for name in (*order, NONE)])
    if len(shown) == 1:
        return
    say_heading(f"All strategies in {short(none.context_limit)} tokens, best first")
    headings = ["strategy", "do not\nfit", "lost\ncontext", "blind\nedits", "tokens\nsent", "cost"]
    draw(Columns(shown, headings, drop=(5, 3, 4, 2, 1), elsewhere="A wider terminal"))
    say(
        "! marks requests that do not fit. Costs are relative to keep-last, which removes the "
        "oldest exchanges. One run shows what fits, not which strategy is best: compare many."
    )


def _recommended(ranking: Ranking) -> str:
    """Returns the first strategy of the ranking, or the first contender if none is installed."""
    order = [place.strategy for place in ranking.places]
    return next((name for name in order if name not in CONTENDERS), order[0])


def _show_chart(title: str, report: ReplayReport) -> None:
    say_heading(title)
    say_chart(sawtooth(report, width(), plain=is_plain()))


def _write(saved: SavedComparison, out: Path | None, *, force: bool) -> Path:
    page = out or (Path(PAGE) if force else unused_path(Path(PAGE)))
    try:
        write_page(saved, page)
    except OSError:
        if out is not None:
            raise
        # The demo must also work in a read-only folder.
        page = unused_path(Path(tempfile.mkdtemp(prefix="jaato-gc-")) / PAGE)
        write_page(saved, page)
    return page
