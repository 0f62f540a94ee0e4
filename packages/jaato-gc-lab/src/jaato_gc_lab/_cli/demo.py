"""``jaato-gc demo``: compares all strategies on the sample run."""

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
from jaato_gc_lab._files import refuse_overwriting, unused_path, write_file
from jaato_gc_lab._prices import load_prices
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

    The sample is a synthetic run of an agent that works on a small code base for nine turns. It is
    replayed with every installed strategy in a window that is too small for it.

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
    saved = SavedComparison(comparison, prices.of(), date.today().isoformat(), versions())
    say(
        f"A sample run of {counted(len(comparison.reports[0].requests), 'request')}, replayed with "
        f"{counted(len(comparison.strategies) - 1, 'strategy')} and without collection. The charts "
        f"show the usage of a window of {short(context_limit)} tokens; "
        f"! marks requests that do not fit."
    )
    for report in comparison.reports:
        collections = counted(len(report.collections), "collection")
        say_heading(f"{report.strategy}: {collections}, peak of {short(report.peak_tokens)} tokens")
        say_lines(sawtooth(report, width(), plain=is_plain()))
    say_comparison(comparison)
    page = _write(saved, out)
    say()
    say(f"Wrote the report to {page}")
    say("Next, try your own runs: jaato-gc inspect FILE, jaato-gc compare FILES")


def _write(saved: SavedComparison, out: Path | None) -> Path:
    if out is not None:
        write_page(saved, out)
        return out
    page = unused_path(Path(PAGE))
    try:
        write_page(saved, page)
    except OSError:  # the demo must also work in a read-only folder
        page = unused_path(Path(tempfile.mkdtemp(prefix="jaato-gc-")) / PAGE)
        write_page(saved, page)
    return page
