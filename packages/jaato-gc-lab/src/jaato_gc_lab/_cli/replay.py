"""``jaato-gc replay``: replays recorded runs with one strategy."""

import dataclasses
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from jaato_gc import GCError, PluginRegistry
from jaato_gc_formats import FormatError, load
from jaato_gc_lab._cli._drawing import (
    draw,
    is_plain,
    progress,
    say,
    say_chart,
    say_heading,
    say_item,
    say_json,
    say_result,
    width,
)
from jaato_gc_lab._cli._ending import say_unpriced
from jaato_gc_lab._cli._grid import NO_FILES
from jaato_gc_lab._cli._numbers import TOKENS
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
)
from jaato_gc_lab._columns import Columns
from jaato_gc_lab._compare import NO_ANSWER, find_files, name_files
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._figures import counted, money, number, percent, seconds, short, since
from jaato_gc_lab._overhead import Overhead
from jaato_gc_lab._prices import load_prices, refuse_several_currencies
from jaato_gc_lab._replay import replay
from jaato_gc_lab._reports import ReplayReport
from jaato_gc_lab._sawtooth import sawtooth

FEW = 8
"""Maximum number of listed violations and skipped files."""
HEADINGS = (
    "transcript",
    "re-\nquests",
    "refused\nafter",
    "blind\nedits",
    "lost\ncontext",
    "lost\nnames",
    "viola-\ntions",
    "collec-\ntions",
    "peak",
    "removed",
)
DROP = (9, 8, 7, 1, 5, 6, 10, 3, 2, 4)
"""Columns to leave out on a narrow terminal, the least important first."""


@click.command("replay", epilog=MEASURES)
@click.argument("files", type=EXISTING, nargs=-1, required=True)
@click.option("-s", "--strategy", metavar="NAME", help="Strategy, or none (budget).")
@click.option("-l", "--context-limit", type=TOKENS, default=128_000, help="Window size (128k).")
@tuning_options
@config_option
@model_option
@prices_option
@overhead_option
@json_option
def command(
    files: tuple[Path, ...],
    strategy: str | None,
    context_limit: int,
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    config_file: Path | None,
    model: str | None,
    prices: Path | None,
    overhead: Overhead,
    as_json: bool,
) -> None:
    """Replay recorded runs with one strategy.

    For each recorded answer, the command builds a request from the preceding messages and collects
    if necessary. It shows the collections, the window usage, requests that do not fit, violations,
    and the removed tokens by reason.

    \b
    Examples:
      jaato-gc replay session.jsonl --strategy marksweep --context-limit 32k
      jaato-gc replay logs/ --config .jaato/gc.json
      jaato-gc replay session.jsonl --context-limit 32k --json
    """
    started = perf_counter()
    named, config = configured(
        strategy, config_file, threshold=threshold, target=target, keep_turns=keep_turns
    )
    registry, table = PluginRegistry(), load_prices(prices)
    reports: list[ReplayReport] = []
    skipped: dict[str, str] = {}
    found = find_files(files)
    with progress("replaying") as advance:
        for position, (path, file_name) in enumerate(name_files(found).items()):
            advance(position, len(found), file_name)
            try:
                conversations = load(path, repair=True, registry=registry)
            except FormatError as error:
                skipped[file_name] = error.what
                continue
            for index, conversation in enumerate(conversations, 1):
                name = f"{file_name}#{index}" if len(conversations) > 1 else file_name
                report = replay(
                    conversation,
                    named or "gc_budget",
                    context_limit=context_limit,
                    config=config,
                    name=name,
                    model=model,
                    prices=table,
                    registry=registry,
                    overhead=overhead,
                )
                if report.requests:
                    reports.append(report)
                else:
                    skipped[name] = NO_ANSWER
    if not found:
        raise GCError(NO_FILES)
    if not reports:
        name, reason = next(iter(skipped.items()))
        raise GCError(f"no conversation to replay: {name}: {reason}")
    refuse_several_currencies(each.currency for each in reports)
    if as_json:
        say_json({"reports": [_data(each) for each in reports], "skipped": skipped})
    else:
        _show(reports, skipped)
        _show_end(reports, started)


def _data(report: ReplayReport) -> dict[str, Any]:
    return {
        **dataclasses.asdict(report),
        "peak_tokens": report.peak_tokens,
        "mean_tokens": report.mean_tokens,
        "input_tokens": report.input_tokens,
        "refused_at": report.refused_at,
        "played": report.played,
        "total_cost": report.total_cost,
        "freed_by_reason": dict(report.freed_by_reason),
    }


def _show(reports: list[ReplayReport], skipped: dict[str, str]) -> None:
    first = reports[0]
    goals = f"threshold {first.threshold_percent:g}%, target {first.target_percent:g}%"
    say(
        f"{first.strategy} in a window of {number(first.context_limit)} tokens, "
        f"{goals if first.strategy != NONE else 'without collection'}"
    )
    if len(reports) == 1:
        say()
        say_chart(sawtooth(first, width(), plain=is_plain()))
    say()
    draw(Columns(map(_row, reports), (*HEADINGS, f"cost,\n{first.currency}"), drop=DROP, gap=1))
    for name in [each.transcript for each in reports if each.cannot_fit]:
        say_item(f"{name}: cannot fit, whatever the strategy removes")
    _show_reasons(reports)
    violations = [fault for each in reports for fault in each.violations]
    if violations:
        say_heading("Violations")
        for fault in violations[:FEW]:
            say_item(fault)
    if skipped:
        say_heading(f"Skipped: {number(len(skipped))}")
        for name, reason in list(skipped.items())[:FEW]:
            say_item(f"{name}: {reason}")


def _row(report: ReplayReport) -> tuple[str, ...]:
    return (
        report.transcript,
        number(len(report.requests)),
        "-" if report.refused_at is None else percent(report.played),
        _share(len(report.blind_edits), report.edits),
        _share(report.context_lost, report.context_used),
        _share(report.names_lost, report.names_used),
        number(len(report.violations)),
        number(len(report.collections)),
        percent(report.peak_tokens / report.context_limit),
        short(report.freed_by_reason.total()),
        money(report.cost),
    )


def _share(count: int, of: int) -> str:
    return percent(count / of if of else None)


def _show_reasons(reports: list[ReplayReport]) -> None:
    freed: Counter[str] = Counter()
    for each in reports:
        freed.update(each.freed_by_reason)
    say_heading("Removed tokens by reason")
    if not freed:
        say("none: nothing was removed")
        return
    total = freed.total()
    rows = [
        (reason, number(tokens), percent(tokens / total)) for reason, tokens in freed.most_common()
    ]
    draw(Columns(rows, ("reason", "tokens", "share")))
    spent = sum(each.seconds for each in reports)
    say(f"{counted(sum(len(r.collections) for r in reports), 'collection')} took {seconds(spent)}")


def _show_end(reports: list[ReplayReport], started: float) -> None:
    say_unpriced(reports)
    requests = sum(len(each.requests) for each in reports)
    unfit = sum(each.overflows for each in reports)
    violations = sum(len(each.violations) for each in reports)
    verdict = f"{number(unfit)} of {number(requests)} requests do not fit"
    verdict = verdict if unfit else "All requests fit"
    if violations:
        verdict += f"; {counted(violations, 'violation')}"
    say_result(
        f"{counted(len(reports), 'run')}, {counted(requests, 'request')} in {since(started)}. "
        f"{verdict}.",
        is_good=not unfit and not violations,
    )
