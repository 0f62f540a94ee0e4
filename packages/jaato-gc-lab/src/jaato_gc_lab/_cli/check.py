"""``jaato-gc check``: checks recorded runs against limits."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from jaato_gc_lab._cli._drawing import say, say_json, say_table
from jaato_gc_lab._cli._exits import Exit
from jaato_gc_lab._cli._grid import run_grid, say_skipped, say_unfit
from jaato_gc_lab._cli._numbers import PERCENT, TOKENS, CommaSeparated
from jaato_gc_lab._cli._options import (
    EXISTING,
    MEASURES,
    config_option,
    configured,
    json_option,
    model_option,
    overhead_option,
    prices_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._comparison import Comparison, Summary
from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._figures import number
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
    measure: Callable[[Summary], float]
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
    limit: int
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
@click.option(
    "-l",
    "--limits",
    type=CommaSeparated(TOKENS),
    default="128k",
    metavar="TOKENS,…",
    help="Window sizes (128k).",
)
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
    limits: list[int],
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

    Exit code 0: all limits are met. 1: a limit is not met. 2: the check could not run.

    \b
    Examples:
      jaato-gc check logs/ --limits 32k,128k
      jaato-gc check logs/ --max-blind-edits 10% --max-lost-context 5%
      jaato-gc check logs/ --config .jaato/gc.json --json
    """
    named, config = configured(
        None, config_file, threshold=threshold, target=target, keep_turns=keep_turns
    )
    saved = run_grid(
        files,
        strategies or [named or "gc_budget"],
        limits,
        config=config,
        model=model,
        prices=prices,
        overhead=overhead,
        workers=workers,
    )
    verdicts = check_limits(saved.comparison, {"max_failed": 0, **allowed})
    holds = all(verdict.holds for verdict in verdicts)
    if as_json:
        say_json(
            {
                "holds": holds,
                "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
                "cannot_fit": saved.comparison.cannot_fit,
                "skipped": saved.comparison.skipped,
                "failed": saved.comparison.failed,
            }
        )
    else:
        _show(verdicts, holds)
        say_unfit(saved.comparison)
        say_skipped(saved.comparison)
    return Exit.OK if holds else Exit.CHECK_FAILED


def check_limits(comparison: Comparison, allowed: dict[str, float | None]) -> list[Verdict]:
    """Checks every given limit for every strategy in every window."""
    verdicts = []
    for summary in comparison.summaries():
        if summary.strategy in (NONE, KEEP_LAST):  # only there for comparison
            continue
        for name, rule in RULES.items():
            limit = allowed.get(name)
            if limit is None or (name == "max_failed" and not summary.failed):
                continue
            measured = rule.measure(summary)
            verdicts.append(
                Verdict(
                    summary.strategy,
                    summary.limit,
                    name,
                    measured,
                    limit,
                    measured <= limit,
                )
            )
    return verdicts


def _show(verdicts: list[Verdict], holds: bool) -> None:
    rows = []
    for each in verdicts:
        rule = RULES[each.rule]
        rows.append(
            (
                "ok" if each.holds else "FAILED",
                each.strategy,
                number(each.limit),
                rule.option.removeprefix("--max-"),
                rule.format(each.measured),
                f"at most {rule.format(each.allowed)}",
            )
        )
    say_table(
        ["result", "strategy", "window", "limit", "measured", "allowed"], rows, left=(0, 1, 3, 5)
    )
    failing = sum(not each.holds for each in verdicts)
    say()
    say(
        "All limits are met."
        if holds
        else f"Not met: {failing} of {len(verdicts)} limits. See the rows marked FAILED."
    )
