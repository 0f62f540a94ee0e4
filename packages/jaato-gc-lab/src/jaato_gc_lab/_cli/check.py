"""``jaato-gc check``: recorded runs held to limits."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from jaato_gc_lab._cli._drawing import say, say_json, say_table
from jaato_gc_lab._cli._exits import Exit
from jaato_gc_lab._cli._grid import run_grid, say_left_out
from jaato_gc_lab._cli._numbers import CHANGE, PERCENT, TOKENS, Listed
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
        option: The option that sets it.
        measure: What it is about.
        is_most: Whether it is the most that is allowed, rather than the least.
        shown: How to show a value.
    """

    option: str
    measure: Callable[[Summary], float | None]
    is_most: bool
    shown: Callable[[float], str]

    def holds(self, measured: float | None, allowed: float) -> bool:
        """Whether a value is within the limit; one that is not known is not."""
        if measured is None:
            return False
        return measured <= allowed if self.is_most else measured >= allowed


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
    """One limit, for one strategy in one window."""

    strategy: str
    limit: int
    rule: str
    measured: float | None
    allowed: float
    holds: bool


@click.command("check")
@click.argument("files", type=EXISTING, nargs=-1, required=True)
@click.option(
    "-s", "--strategies", type=Listed(click.STRING), metavar="A,B,…", help="Which (budget)."
)
@click.option(
    "-l",
    "--limits",
    type=Listed(TOKENS),
    default="128k",
    metavar="TOKENS,…",
    help="The windows (128k).",
)
@click.option(
    "--max-overflows",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Requests that may not fit (0).",
)
@click.option(
    "--max-violations",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Faults that a provider may refuse (0).",
)
@click.option(
    "--max-regret", type=PERCENT, metavar="PERCENT", help="Names used later that may be gone."
)
@click.option(
    "--max-rereads", type=click.IntRange(0), metavar="N", help="Files that may have to be reread."
)
@click.option(
    "--min-saving",
    type=CHANGE,
    metavar="PERCENT",
    help="Money to be saved against collecting nothing.",
)
@click.option(
    "--max-cost",
    type=click.FloatRange(0),
    metavar="MONEY",
    help="Money for all runs, with looking up again what was lost.",
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
    """Hold recorded runs to limits, for CI.

    Every strategy in every window has to stay within every limit that is given. That all requests
    fit, and that a provider would refuse none of them, is always asked for.

    Exit code 0: all of it holds. 1: some of it does not. 2: it could not be checked.

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
    verdicts = judge(saved.comparison, {"max_failed": 0, **allowed})
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
        say_left_out(saved.comparison)
    return Exit.OK if holds else Exit.DOES_NOT_HOLD


def judge(comparison: Comparison, allowed: dict[str, float | None]) -> list[Verdict]:
    """Every limit that is given, for every strategy in every window."""
    verdicts = []
    for summary in comparison.summaries():
        if summary.strategy == comparison.strategies[0]:  # collecting nothing is held to nothing
            continue
        for name, rule in RULES.items():
            most = allowed.get(name)
            if most is None or (name == "max_failed" and not summary.failed):
                continue
            measured = rule.measure(summary)
            verdicts.append(
                Verdict(
                    summary.strategy,
                    summary.limit,
                    name,
                    measured,
                    most,
                    rule.holds(measured, most),
                )
            )
    return verdicts


def _show(verdicts: list[Verdict], holds: bool) -> None:
    rows = []
    for each in verdicts:
        rule = RULES[each.rule]
        measured = "not known" if each.measured is None else rule.shown(each.measured)
        verb = "at most" if rule.is_most else "at least"
        rows.append(
            (
                "ok" if each.holds else "FAILS",
                each.strategy,
                number(each.limit),
                rule.option.removeprefix("--max-").removeprefix("--min-"),
                measured,
                f"{verb} {rule.shown(each.allowed)}",
            )
        )
    say_table(
        ["", "strategy", "window", "limit on", "measured", "allowed"], rows, left=(0, 1, 3, 5)
    )
    failing = sum(not each.holds for each in verdicts)
    say()
    say(
        "All of it holds."
        if holds
        else f"{failing} of {len(verdicts)} limits do not hold: see the lines marked FAILS."
    )
