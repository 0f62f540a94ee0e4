"""``jaato-gc compare``: recorded runs under many strategies."""

from pathlib import Path

import click

from jaato_gc_lab._cli._drawing import say, say_json
from jaato_gc_lab._cli._grid import run_grid, say_comparison, say_left_out, write_page
from jaato_gc_lab._cli._numbers import TOKENS, Listed
from jaato_gc_lab._cli._options import (
    EXISTING,
    NEW,
    configured,
    force_option,
    json_option,
    model_option,
    prices_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._files import refuse_overwriting


@click.command("compare")
@click.argument("files", type=EXISTING, nargs=-1, required=True)
@click.option(
    "-s",
    "--strategies",
    type=Listed(click.STRING),
    metavar="A,B,…",
    help="Which strategies; all that are installed if not given.",
)
@click.option(
    "-l",
    "--limits",
    type=Listed(TOKENS),
    default="128k",
    metavar="TOKENS,…",
    help="The windows (128k).",
)
@tuning_options
@model_option
@prices_option
@workers_option
@click.option("--report", type=NEW, metavar="FILE", help="Write the page with all charts there.")
@force_option
@json_option
def command(
    files: tuple[Path, ...],
    strategies: list[str] | None,
    limits: list[int],
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    model: str | None,
    prices: Path | None,
    workers: int | None,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Play recorded runs again under many strategies, and rank them.

    FILES are files or folders; of folders, all files that hold a conversation. Every run is played
    under every strategy in every window, on all processors, and once without collecting.

    \b
    overflows   requests that did not fit into the window
    violations  what a provider would have refused; 0 is as it should be
    saved       money saved against collecting nothing, with what it costs
                to write the prompt cache anew; negative is a loss
    regret      share of the names (paths, identifiers, numbers) used
                later that were gone by then
    re-reads    files that would have had to be read again
    time        time spent collecting

    \b
    Examples:
      jaato-gc compare session.jsonl
      jaato-gc compare logs/ --strategies budget,marksweep --limits 32k,128k
      jaato-gc compare logs/ --limits 128k --report report.html
      jaato-gc compare logs/ --json > comparison.json
    """
    refuse_overwriting([report], force=force)
    _, config = configured(None, None, threshold=threshold, target=target, keep_turns=keep_turns)
    saved = run_grid(
        files,
        strategies,
        limits,
        config=config,
        model=model,
        prices=prices,
        workers=workers,
    )
    if report is not None:
        write_page(saved, report)
    if as_json:
        say_json(saved.to_dict())
        return
    say_comparison(saved.comparison)
    say_left_out(saved.comparison)
    if report is not None:
        say()
        say(f"The page with all charts: {report}")
