"""``jaato-gc report``: writes the HTML report with all charts."""

from pathlib import Path
from time import perf_counter

import click
from click.core import ParameterSource

from jaato_gc_lab._cli._drawing import say
from jaato_gc_lab._cli._ending import say_end, say_unpriced
from jaato_gc_lab._cli._grid import run_grid, say_skipped, write_page
from jaato_gc_lab._cli._options import (
    EXISTING,
    MEASURES,
    NEW,
    configured,
    context_limits_option,
    force_option,
    model_option,
    overhead_option,
    prices_option,
    strategies_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._files import refuse_overwriting
from jaato_gc_lab._overhead import Overhead
from jaato_gc_lab._saved import load_comparison

REPLAY_OPTIONS = {
    "strategies",
    "context_limits",
    "threshold",
    "target",
    "keep_turns",
    "model",
    "prices",
    "overhead",
    "workers",
}
"""Options of the replays, which a saved comparison does not accept."""


@click.command("report", epilog=MEASURES)
@click.argument("files", type=EXISTING, nargs=-1)
@click.option(
    "--from",
    "saved_file",
    type=EXISTING,
    metavar="FILE",
    help="Saved comparison, created with compare --json.",
)
@click.option(
    "-o",
    "--out",
    type=NEW,
    default="jaato-gc-report.html",
    metavar="FILE",
    help="Report file (jaato-gc-report.html).",
)
@click.option(
    "--svg",
    type=NEW,
    metavar="FILE",
    help="Also write the main chart to FILE as SVG: one run with and without collection.",
)
@strategies_option
@context_limits_option
@tuning_options
@model_option
@prices_option
@overhead_option
@workers_option
@force_option
def command(
    files: tuple[Path, ...],
    saved_file: Path | None,
    out: Path,
    svg: Path | None,
    strategies: list[str] | None,
    context_limits: list[int],
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    model: str | None,
    prices: Path | None,
    overhead: Overhead,
    workers: int | None,
    force: bool,
) -> None:
    """Write the HTML report with all charts.

    The report is one self-contained HTML file. It works offline, in light and dark mode, and with
    keyboard and screen reader. The command replays FILES like compare, or loads a saved comparison.

    \b
    Examples:
      jaato-gc report logs/ --context-limit 32k,128k -o report.html
      jaato-gc compare logs/ --json > comparison.json
      jaato-gc report --from comparison.json -o report.html --svg chart.svg
    """
    started = perf_counter()
    if bool(files) == bool(saved_file):
        raise click.UsageError("pass files to replay or a saved comparison with --from FILE")
    if svg is not None and svg.resolve() == out.resolve():
        raise click.UsageError(f"--out and --svg are the same file, {out}: choose two files")
    refuse_overwriting([out, svg], force=force)
    if saved_file:
        _refuse_replay_options()
        saved = load_comparison(saved_file)
    else:
        _, config = configured(
            None, None, threshold=threshold, target=target, keep_turns=keep_turns
        )
        saved = run_grid(
            files,
            strategies,
            context_limits,
            config=config,
            model=model,
            prices=prices,
            overhead=overhead,
            workers=workers,
        )
    write_page(saved, out, svg)
    say(f"Wrote the report to {out}")
    if svg is not None:
        say(f"Wrote the chart to {svg}")
    say_unpriced(saved.comparison.reports)
    say_skipped(saved.comparison)
    if not saved_file:
        say_end(saved.comparison, started)


def _refuse_replay_options() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in REPLAY_OPTIONS and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[-1]} does not apply to a saved comparison: remove it, or pass "
                "files to replay"
            )
