"""``jaato-gc demo``: the main job, on a sample run, with no arguments."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import click

from jaato_gc_lab._cli._drawing import is_plain, progress, say, say_heading, say_lines, width
from jaato_gc_lab._cli._grid import say_comparison, versions, write_page
from jaato_gc_lab._cli._numbers import TOKENS
from jaato_gc_lab._cli._options import NEW, force_option
from jaato_gc_lab._compare import compare
from jaato_gc_lab._figures import counted, short
from jaato_gc_lab._files import free_name, refuse_overwriting, write_new
from jaato_gc_lab._prices import load_prices
from jaato_gc_lab._sample import sample_path
from jaato_gc_lab._saved import SavedComparison
from jaato_gc_lab._sawtooth import sawtooth

PAGE = "jaato-gc-demo.html"
NAME = "sample run"


@click.command("demo")
@click.option("-l", "--limit", type=TOKENS, default=32_000, help="The window (32k).")
@click.option(
    "-o",
    "--out",
    type=NEW,
    metavar="FILE",
    help=f"Where to write the page; by default {PAGE}, or with a number if that exists.",
)
@click.option("--sample", type=NEW, metavar="FILE", help="Only write the sample run there.")
@force_option
def command(limit: int, out: Path | None, sample: Path | None, force: bool) -> None:
    """See it work, on a sample run: every strategy, the table, the page.

    An agent works on a small code base for nine turns. The run was made up for this project. It is
    played under every installed strategy in a window that is too small for it.

    \b
    Examples:
      jaato-gc demo
      jaato-gc demo --limit 16k --out demo.html
      jaato-gc demo --sample run.json.gz
    """
    refuse_overwriting([out, sample], force=force)
    if sample is not None:
        write_new(sample, sample_path().read_bytes())
        say(f"The sample run: {sample}")
        return
    prices = load_prices()
    # One thread: for a single run, starting processes would take longer than the work.
    with ThreadPoolExecutor(1) as executor, progress("playing") as advance:
        comparison = compare(
            [sample_path()],
            limits=[limit],
            prices=prices,
            executor=executor,
            on_progress=lambda done, total, latest: advance(done, total, latest.cell.strategy),
        )
    for report in comparison.reports:
        report.transcript = NAME
    saved = SavedComparison(comparison, prices.of(), date.today().isoformat(), versions())
    say(
        f"A sample run of {counted(len(comparison.reports[0].requests), 'request')}, played under "
        f"{counted(len(comparison.strategies) - 1, 'strategy')} and without collecting. How full a "
        f"window of {short(limit)} tokens was; an exclamation mark: did not fit."
    )
    for report in comparison.reports:
        what = counted(len(report.collections), "collection")
        say_heading(f"{report.strategy}: {what}, {short(report.peak_tokens)} tokens at most")
        say_lines(sawtooth(report, width(), plain=is_plain()))
    say_comparison(comparison)
    page = _write(saved, out)
    say()
    say(f"The page with all charts: {page}")
    say("Now your own: jaato-gc inspect FILE, jaato-gc compare FILES")


def _write(saved: SavedComparison, out: Path | None) -> Path:
    if out is not None:
        write_page(saved, out)
        return out
    page = free_name(Path(PAGE))
    try:
        write_page(saved, page)
    except OSError:  # a folder that can't be written to is no reason to show nothing
        page = free_name(Path(tempfile.mkdtemp(prefix="jaato-gc-")) / PAGE)
        write_page(saved, page)
    return page
