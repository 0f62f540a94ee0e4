"""``jaato-gc report``: the page with all charts."""

from pathlib import Path

import click
from click.core import ParameterSource

from jaato_gc_lab._cli._drawing import say
from jaato_gc_lab._cli._grid import run_grid, say_left_out, write_page
from jaato_gc_lab._cli._numbers import TOKENS, Listed
from jaato_gc_lab._cli._options import (
    EXISTING,
    NEW,
    configured,
    force_option,
    model_option,
    prices_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._files import refuse_overwriting
from jaato_gc_lab._saved import load_comparison

OF_THE_GRID = {
    "strategies",
    "limits",
    "threshold",
    "target",
    "keep_turns",
    "model",
    "prices",
    "workers",
}
"""Options that say how files are played."""


@click.command("report")
@click.argument("files", type=EXISTING, nargs=-1)
@click.option(
    "--from",
    "saved_file",
    type=EXISTING,
    metavar="FILE",
    help="A comparison that was saved with compare --json.",
)
@click.option(
    "-o",
    "--out",
    type=NEW,
    default="jaato-gc-report.html",
    metavar="FILE",
    help="Where to write the page (jaato-gc-report.html).",
)
@click.option("--svg", type=NEW, metavar="FILE", help="Write the main chart there too, as SVG.")
@click.option("-s", "--strategies", type=Listed(click.STRING), metavar="A,B,…", help="As compare.")
@click.option(
    "-l", "--limits", type=Listed(TOKENS), default="128k", metavar="TOKENS,…", help="As compare."
)
@tuning_options
@model_option
@prices_option
@workers_option
@force_option
def command(
    files: tuple[Path, ...],
    saved_file: Path | None,
    out: Path,
    svg: Path | None,
    strategies: list[str] | None,
    limits: list[int],
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    model: str | None,
    prices: Path | None,
    workers: int | None,
    force: bool,
) -> None:
    """Make the page with all charts, from runs or from a comparison.

    The page is one HTML file that needs nothing else: it works offline, on light and dark screens,
    with keyboard and screen reader. FILES are played as compare does; or give a comparison that
    was saved.

    \b
    Examples:
      jaato-gc report logs/ --limits 32k,128k -o report.html
      jaato-gc compare logs/ --json > comparison.json
      jaato-gc report --from comparison.json -o report.html --svg chart.svg
    """
    if bool(files) == bool(saved_file):
        raise click.UsageError("name the files to play, or a saved comparison with --from FILE")
    if svg is not None and svg.resolve() == out.resolve():
        raise click.UsageError(f"--out and --svg name the same file, {out}: name two")
    refuse_overwriting([out, svg], force=force)
    if saved_file:
        _refuse_options_of_the_grid()
        saved = load_comparison(saved_file)
    else:
        _, config = configured(
            None, None, threshold=threshold, target=target, keep_turns=keep_turns
        )
        saved = run_grid(
            files, strategies, limits, config=config, model=model, prices=prices, workers=workers
        )
    write_page(saved, out, svg)
    say(f"The page: {out}")
    if svg is not None:
        say(f"The chart: {svg}")
    say_left_out(saved.comparison)


def _refuse_options_of_the_grid() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in OF_THE_GRID and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[-1]} goes with files to play: a saved comparison is shown as it "
                "was made"
            )
