"""``jaato-gc compare``: replays recorded runs with several strategies."""

from pathlib import Path
from time import perf_counter

import click

from jaato_gc_lab._cli._drawing import say, say_json
from jaato_gc_lab._cli._ending import say_end
from jaato_gc_lab._cli._grid import run_grid, say_comparison, say_skipped, write_page
from jaato_gc_lab._cli._options import (
    EXISTING,
    MEASURES,
    NEW,
    configured,
    context_limits_option,
    force_option,
    json_option,
    model_option,
    overhead_option,
    prices_option,
    strategies_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._files import refuse_overwriting
from jaato_gc_lab._overhead import Overhead


@click.command("compare", epilog=MEASURES)
@click.argument("files", type=EXISTING, nargs=-1, required=True)
@strategies_option
@context_limits_option
@tuning_options
@model_option
@prices_option
@overhead_option
@workers_option
@click.option("--report", type=NEW, metavar="FILE", help="Write an HTML report to FILE.")
@force_option
@json_option
def command(
    files: tuple[Path, ...],
    strategies: list[str] | None,
    context_limits: list[int],
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    model: str | None,
    prices: Path | None,
    overhead: Overhead,
    workers: int | None,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Replay recorded runs with several strategies and rank them.

    FILES are files, or folders that contain files with conversations. Every run is replayed with
    every strategy in every window, with keep-last (the oldest exchanges are removed), and without
    collection, on all processors. Other contenders to name: clear-tool-results, mask-observations,
    head-tail; all stands for every strategy and contender.

    \b
    Examples:
      jaato-gc compare session.jsonl
      jaato-gc compare logs/ --strategies budget,head-tail -l 32k,128k
      jaato-gc compare logs/ --strategies all --overhead 20k
      jaato-gc compare logs/ --context-limit 128k --report report.html
      jaato-gc compare logs/ --json > comparison.json
    """
    started = perf_counter()
    refuse_overwriting([report], force=force)
    _, config = configured(None, None, threshold=threshold, target=target, keep_turns=keep_turns)
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
    if report is not None:
        write_page(saved, report)
    if as_json:
        say_json(saved.to_dict())
        return
    say_comparison(saved.comparison)
    say_skipped(saved.comparison)
    if report is not None:
        say()
        say(f"Wrote the report to {report}")
    say_end(saved.comparison, started)
