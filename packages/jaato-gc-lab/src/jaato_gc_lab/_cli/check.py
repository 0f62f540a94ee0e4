"""``jaato-gc check``: checks recorded runs against limits."""

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import click

from jaato_gc_lab._cli._drawing import draw, say, say_json, say_result
from jaato_gc_lab._cli._ending import replayed, say_unpriced
from jaato_gc_lab._cli._exits import Exit
from jaato_gc_lab._cli._grid import run_grid, say_skipped, say_unfit
from jaato_gc_lab._cli._numbers import PERCENT, CommaSeparated
from jaato_gc_lab._cli._options import (
    EXISTING,
    MEASURES,
    config_option,
    configured,
    context_limits_option,
    json_option,
    model_option,
    overhead_option,
    prices_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._columns import Columns
from jaato_gc_lab._comparison import Comparison, StrategyTotals
from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._figures import counted, number, since
from jaato_gc_lab._overhead import Overhead


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit.

    Args:
        option: The option that sets the limit.
        measure: Returns the measured value.
        format: Formats a value.
    """

    option: str
    measure: Callable[[StrategyTotals], float]
    format: Callable[[float], str]


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


RULES = {
    "max_refused": Rule("--max-refused", lambda each: each.refused, number),
    "max_violations": Rule("--max-violations", lambda each: each.violations, number),
    "max_blind_edits": Rule(
        "--max-blind-edits", lambda each: 100 * (each.blind_edit_share or 0), _percent
    ),
    "max_lost_context": Rule(
        "--max-lost-context", lambda each: 100 * (each.lost_context_share or 0), _percent
    ),
    "max_lost_names": Rule(
        "--max-lost-names", lambda each: 100 * (each.lost_name_share or 0), _percent
    ),
    "max_rereads": Rule("--max-rereads", lambda each: each.rereads, number),
    "max_cost": Rule("--max-cost", lambda each: each.total_cost, lambda cost: f"{cost:,.4f}"),
    "max_failed": Rule("--max-failed", lambda each: each.failed, number),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one limit for one strategy in one window."""

    strategy: str
    context_limit: int
    rule: str
    measured: float
    allowed: float
    holds: bool


@click.command("check", epilog=MEASURES)
@click.argument("files", type=EXISTING, nargs=-1, required=True)
@click.option(
    "-s",
    "--strategies",
    type=CommaSeparated(click.STRING),
    metavar="A,B,…",
    help="Strategies (budget).",
)
@context_limits_option
@click.option(
    "--max-refused",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Maximum runs with a request that does not fit (0).",
)
@click.option(
    "--max-violations",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Maximum violations (0).",
)
@click.option(
    "--max-blind-edits", type=PERCENT, metavar="PERCENT", help="Maximum share of blind edits."
)
@click.option(
    "--max-lost-context", type=PERCENT, metavar="PERCENT", help="Maximum share of lost context."
)
@click.option(
    "--max-lost-names", type=PERCENT, metavar="PERCENT", help="Maximum share of lost names."
)
@click.option(
    "--max-rereads", type=click.IntRange(0), metavar="N", help="Maximum files to read again."
)
@click.option(
    "--max-cost",
    type=click.FloatRange(0),
    metavar="MONEY",
    help="Maximum cost of all runs, including repeated lookups.",
)
@tuning_options
@config_option
@model_option
@prices_option
@overhead_option
@workers_option
@json_option
def command(
    files: tuple[Path, ...],
    strategies: list[str] | None,
    context_limits: list[int],
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    config_file: Path | None,
    model: str | None,
    prices: Path | None,
    overhead: Overhead,
    workers: int | None,
    as_json: bool,
    **allowed: float | None,
) -> Exit:
    """Check recorded runs against limits, for CI.

    Every strategy must meet every given limit in every window. By default, all requests must fit
    into the window and a provider must accept all of them.

    Exit code 0: all limits are met. 1: a limit is not met, or no run can fit into a window. 2: the
    check could not run.

    \b
    Examples:
      jaato-gc check logs/ --context-limit 32k,128k
      jaato-gc check logs/ --max-blind-edits 10% --max-lost-context 5%
      jaato-gc check logs/ --config .jaato/gc.json --json
    """
    started = perf_counter()
    named, config = configured(
        None, config_file, threshold=threshold, target=target, keep_turns=keep_turns
    )
    chosen = strategies or [named or "gc_budget"]
    saved = run_grid(
        files,
        chosen,
        context_limits,
        config=config,
        model=model,
        prices=prices,
        overhead=overhead,
        workers=workers,
    )
    comparison = saved.comparison
    verdicts = check_limits(comparison, {"max_failed": 0, **allowed}, chosen)
    unchecked = windows_without_runs(comparison)
    holds = all(verdict.holds for verdict in verdicts) and not unchecked
    if as_json:
        say_json(
            {
                "holds": holds,
                "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
                "cannot_fit": comparison.cannot_fit,
                "skipped": comparison.skipped,
                "failed": comparison.failed,
            }
        )
    else:
        _show(verdicts)
        for context_limit in unchecked:
            say(f"Not checked: no run can fit into a window of {number(context_limit)} tokens.")
        say_unfit(comparison)
        say_skipped(comparison)
        if allowed["max_cost"] is not None:
            say_unpriced(comparison.reports)
        say_result(
            f"{replayed(comparison)} in {since(started)}. {_verdict(verdicts, unchecked)}",
            is_good=holds,
        )
    return Exit.OK if holds else Exit.CHECK_FAILED


def windows_without_runs(comparison: Comparison) -> list[int]:
    """Returns the windows that no run can fit into: there, nothing can be checked."""
    return [
        context_limit
        for context_limit, unfit in comparison.cannot_fit.items()
        if unfit
        and not any(
            each.context_limit == context_limit and each.transcripts
            for each in comparison.summaries()
        )
    ]


def check_limits(
    comparison: Comparison, allowed: dict[str, float | None], strategies: Collection[str] = ()
) -> list[Verdict]:
    """Checks every given limit for every strategy in every window.

    Args:
        comparison: The results.
        allowed: The limits, by rule.
        strategies: The names that the user gave. ``none`` and ``keep-last`` are checked only if
            they are among them, because every comparison has them.
    """
    verdicts = []
    for summary in comparison.summaries():
        if summary.strategy in (NONE, KEEP_LAST) and summary.strategy not in strategies:
            continue
        if not summary.transcripts and not summary.failed:
            continue
        for name, rule in RULES.items():
            most = allowed.get(name)
            if most is None or (name == "max_failed" and not summary.failed):
                continue
            measured = rule.measure(summary)
            verdicts.append(
                Verdict(
                    summary.strategy,
                    summary.context_limit,
                    name,
                    measured,
                    most,
                    measured <= most,
                )
            )
    return verdicts


def _verdict(verdicts: list[Verdict], unchecked: list[int]) -> str:
    if failing := sum(not each.holds for each in verdicts):
        return f"Not met: {failing} of {len(verdicts)} limits. See the rows marked FAILED."
    if unchecked:
        return f"Not checked: {counted(len(unchecked), 'window')}."
    return "All limits are met."


def _show(verdicts: list[Verdict]) -> None:
    rows = []
    for each in verdicts:
        rule = RULES[each.rule]
        rows.append(
            (
                "ok" if each.holds else "FAILED",
                each.strategy,
                number(each.context_limit),
                rule.option.removeprefix("--max-"),
                rule.format(each.measured),
                f"at most {rule.format(each.allowed)}",
            )
        )
    if rows:
        headings = ["result", "strategy", "window", "limit", "measured", "allowed"]
        draw(Columns(rows, headings, flexible=1, left=(0, 3, 5), drop=(2, 5, 4, 3)))
