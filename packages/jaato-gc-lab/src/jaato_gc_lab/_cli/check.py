"""``jaato-gc check``: checks recorded runs against limits."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from jaato_gc_lab._cli._drawing import say, say_json, say_table
from jaato_gc_lab._cli._exits import Exit
from jaato_gc_lab._cli._grid import run_grid, say_skipped
from jaato_gc_lab._cli._numbers import PERCENT, SIGNED_PERCENT, TOKENS, CommaSeparated
from jaato_gc_lab._cli._options import (
    EXISTING,
    config_option,
    configured,
    json_option,
    model_option,
    prices_option,
    tuning_options,
    workers_option,
)
from jaato_gc_lab._compare import Comparison, Summary
from jaato_gc_lab._figures import number


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit.

    Args:
        option: The option that sets the limit.
        measure: Returns the measured value, or ``None`` if it is unknown.
        is_maximum: Whether the limit is a maximum rather than a minimum.
        format: Formats a value.
    """

    option: str
    measure: Callable[[Summary], float | None]
    is_maximum: bool
    format: Callable[[float], str]

    def holds(self, measured: float | None, allowed: float) -> bool:
        """Returns whether a value is known and within the limit."""
        if measured is None:
            return False
        return measured <= allowed if self.is_maximum else measured >= allowed


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def _share(share: float | None) -> float | None:
    return None if share is None else 100 * share


RULES = {
    "max_overflows": Rule("--max-overflows", lambda each: each.overflows, True, number),
    "max_violations": Rule("--max-violations", lambda each: each.violations, True, number),
    "max_regret": Rule("--max-regret", lambda each: _share(each.regret), True, _percent),
    "max_rereads": Rule("--max-rereads", lambda each: each.rereads, True, number),
    "min_saving": Rule("--min-saving", lambda each: _share(each.saving), False, _percent),
    "max_cost": Rule("--max-cost", lambda each: each.total_cost, True, lambda v: f"{v:,.4f}"),
    "max_failed": Rule("--max-failed", lambda each: each.failed, True, number),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one limit for one strategy in one window."""

    strategy: str
    limit: int
    rule: str
    measured: float | None
    allowed: float
    holds: bool


@click.command("check")
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
    "--max-overflows",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Maximum requests that do not fit (0).",
)
@click.option(
    "--max-violations",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Maximum violations (0).",
)
@click.option(
    "--max-regret", type=PERCENT, metavar="PERCENT", help="Maximum share of removed names."
)
@click.option(
    "--max-rereads", type=click.IntRange(0), metavar="N", help="Maximum files to read again."
)
@click.option(
    "--min-saving",
    type=SIGNED_PERCENT,
    metavar="PERCENT",
    help="Minimum saving compared to no collection.",
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
      jaato-gc check logs/ --max-overflows 0 --max-regret 2% --min-saving 40%
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
        workers=workers,
    )
    verdicts = check_limits(saved.comparison, {"max_failed": 0, **allowed})
    holds = all(verdict.holds for verdict in verdicts)
    if as_json:
        say_json(
            {
                "holds": holds,
                "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
                "skipped": saved.comparison.skipped,
                "failed": saved.comparison.failed,
            }
        )
    else:
        _show(verdicts, holds)
        say_skipped(saved.comparison)
    return Exit.OK if holds else Exit.CHECK_FAILED


def check_limits(comparison: Comparison, allowed: dict[str, float | None]) -> list[Verdict]:
    """Checks every given limit for every strategy in every window."""
    verdicts = []
    for summary in comparison.summaries():
        if summary.strategy == comparison.strategies[0]:  # the baseline has no limits
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
                    rule.holds(measured, limit),
                )
            )
    return verdicts


def _show(verdicts: list[Verdict], holds: bool) -> None:
    rows = []
    for each in verdicts:
        rule = RULES[each.rule]
        measured = "unknown" if each.measured is None else rule.format(each.measured)
        comparative = "at most" if rule.is_maximum else "at least"
        rows.append(
            (
                "ok" if each.holds else "FAILED",
                each.strategy,
                number(each.limit),
                rule.option.removeprefix("--max-").removeprefix("--min-"),
                measured,
                f"{comparative} {rule.format(each.allowed)}",
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
