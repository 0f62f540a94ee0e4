"""The last lines of a command: whose prices apply, what was done, and the verdict."""

from collections.abc import Iterable, Sequence

from jaato_gc_lab._cli._drawing import say, say_result
from jaato_gc_lab._comparison import Comparison
from jaato_gc_lab._contenders import NONE
from jaato_gc_lab._figures import counted, since
from jaato_gc_lab._reports import ReplayReport


def say_unpriced(reports: Iterable[ReplayReport]) -> None:
    """Prints the models without a known price once, and whose price applies instead."""
    instead = {each.unpriced_model: each.model for each in reports if each.unpriced_model}
    if instead:
        say_no_price([*instead], next(iter(instead.values())))


def say_no_price(models: Sequence[str], instead: str) -> None:
    """Prints that models have no known price, and whose price applies instead."""
    say(
        f"No price is known for {', '.join(models)}: the prices of {instead} apply. Choose others "
        "with --model or --prices."
    )


def say_end(comparison: Comparison, started: float) -> None:
    """Prints what was replayed, how long it took, and whether all requests fit."""
    problems = _problems(comparison)
    if problems:
        verdict = "; ".join(problems)
    elif any(report.overflows for report in comparison.reports):
        verdict = "all requests fit with every strategy"
    else:
        verdict = "all requests fit, also without collection"
    say_result(
        f"{replayed(comparison)} in {since(started)}. {verdict[:1].upper()}{verdict[1:]}.",
        is_good=not problems,
    )


def _problems(comparison: Comparison) -> list[str]:
    found = []
    if comparison.failures:
        found.append(f"{counted(len(comparison.failures), 'replay')} failed")
    if violations := sum(len(report.violations) for report in comparison.reports):
        found.append(counted(violations, "violation"))
    refused = {report.strategy for report in comparison.reports if report.overflows} - {NONE}
    if names := [name for name in comparison.strategies if name in refused]:
        found.append(f"requests do not fit with {', '.join(names)}")
    return found


def replayed(comparison: Comparison) -> str:
    """Returns how many runs and replays a comparison has: ``2 runs, 14 replays``."""
    runs = {(each.cell.path, each.cell.index) for each in comparison.results}
    return f"{counted(len(runs), 'run')}, {counted(len(comparison.results), 'replay')}"
