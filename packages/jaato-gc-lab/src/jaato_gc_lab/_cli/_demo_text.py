"""The words and figures of ``jaato-gc demo``."""

from collections.abc import Iterable

from jaato_gc_lab._comparison import StrategyTotals
from jaato_gc_lab._figures import number, percent, short
from jaato_gc_lab._reports import ReplayReport


def headline(none: ReplayReport, best: ReplayReport) -> str:
    """Returns the most important fact of the demo in one or two sentences.

    Args:
        none: The run without collection.
        best: The run with the recommended strategy.
    """
    window = short(none.context_limit)
    sent = percent(best.input_tokens / none.input_tokens)
    if not none.overflows:
        fact = f"All {number(len(none.requests))} requests fit into {window} tokens"
        if not best.collections:
            return f"{fact}, nothing has to be removed. Try --context-limit 32k."
        return f"{fact} without collection. With {best.strategy}, they take {sent} of the tokens."
    lost = f"{number(none.overflows)} of {number(len(none.requests))} requests"
    fact = f"Without collection, {lost} do not fit into {window} tokens."
    if best.overflows:
        return f"{fact} With {best.strategy}, {number(best.overflows)} do not."
    return f"{fact} With {best.strategy}, all fit, with {sent} of the tokens."


def rows(summaries: Iterable[StrategyTotals]) -> list[tuple[str, ...]]:
    """Returns a row for each strategy. Strategies with the same figures share one."""
    names: dict[tuple[str, ...], list[str]] = {}
    for each in summaries:
        names.setdefault(_figures(each), []).append(each.strategy)
    return [(", ".join(tied), *figures) for figures, tied in names.items()]


def _figures(summary: StrategyTotals) -> tuple[str, ...]:
    return (
        number(summary.overflows),
        percent(summary.lost_context_share),
        percent(summary.blind_edit_share),
        short(summary.input_tokens),
        "-" if summary.cost_ratio is None else f"{summary.cost_ratio:.0%}",
    )
