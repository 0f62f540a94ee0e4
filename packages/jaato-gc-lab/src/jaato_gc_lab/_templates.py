"""Jinja environment for reports and charts: templates, colours and text filters."""

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from jaato_gc_lab import _figures
from jaato_gc_lab._charts import UsagePanel
from jaato_gc_lab._figures import counted, money, number, short
from jaato_gc_lab._intervals import MIN_RUNS, Interval

if TYPE_CHECKING:
    from jinja2 import Environment

PALETTE = {
    "back": ("#f3f5f7", "#101419"),
    "paper": ("#ffffff", "#181d23"),
    "text": ("#1b2027", "#e8ecf0"),
    "muted": ("#59636e", "#9aa5b1"),
    "rule": ("#dde2e7", "#323a43"),
    "edge": ("#77818c", "#77818c"),
    "bad": ("#b3261e", "#ff8a80"),
    "link": ("#0b5fa5", "#7cc0f5"),
    "focus": ("#0b5fa5", "#ffd166"),
    "tip": ("#1b2027", "#e8ecf0"),
    "tip-text": ("#ffffff", "#14181d"),
    "strategy-0": ("#1765e7", "#4290fd"),
    "strategy-1": ("#fe5c11", "#f77d4c"),
    "strategy-2": ("#31a557", "#6cf5a2"),
    "strategy-3": ("#c870d3", "#fedffb"),
    "strategy-4": ("#4b1ab0", "#7a51dd"),
    "strategy-5": ("#a3531b", "#a15b28"),
    "strategy-6": ("#853177", "#ee9ae6"),
    "strategy-7": ("#554404", "#fbd22a"),
    "strategy-8": ("#013648", "#2b7395"),
    "strategy-9": ("#77818c", "#8d98a4"),
    "source-0": ("#999999", "#999999"),
    "source-1": ("#e69f00", "#e69f00"),
    "source-2": ("#f0e442", "#f0e442"),
    "source-3": ("#56b4e9", "#56b4e9"),
    "source-4": ("#0072b2", "#0072b2"),
    "source-5": ("#cc79a7", "#cc79a7"),
    "source-6": ("#d55e00", "#d55e00"),
    "source-7": ("#009e73", "#009e73"),
    "part-0": ("#0072b2", "#56b4e9"),
    "part-1": ("#c04f00", "#f2884b"),
    "part-2": ("#007f5c", "#2fc79a"),
}
"""Colours by name, as a pair for light and dark backgrounds.

The colours of strategies differ in lightness as well as in hue, so that colour-blind readers can
tell any two of them apart. Those of sources are the Okabe-Ito palette. All lines have a contrast of
at least 3 to 1 with the background.
"""
STRATEGY_COLOURS = 9
"""Number of strategy colours. The colour after the last one marks the run without collection."""
SOURCE_COLOURS = 8
NBSP = "\N{NO-BREAK SPACE}"

UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Characters that are invalid in XML, can't be encoded, or change the text direction."""


@cache
def environment() -> "Environment":
    """Returns the Jinja environment, which escapes text and replaces unprintable characters."""
    # Imported here because most commands do not need Jinja.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    jinja = Environment(
        loader=PackageLoader("jaato_gc_lab"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    jinja.globals.update(
        palette=PALETTE,
        strategy_colours=STRATEGY_COLOURS + 1,
        source_colours=SOURCE_COLOURS,
        min_runs=MIN_RUNS,
    )
    jinja.filters.update(
        amount=amount,
        change=change,
        described=described,
        money=money,
        number=number,
        percent=percent,
        plain_number=plain_number,
        scale_end=scale_end,
        seconds=seconds,
        sentence=sentence,
        short=short,
        signed=signed,
        spaced=spaced,
        spread=spread,
        times=counted,
    )
    return jinja


def template_text(name: str) -> str:
    """Returns the unrendered text of a file in the templates folder."""
    return resources.files("jaato_gc_lab").joinpath("templates", name).read_text(encoding="utf-8")


def percent(share: float | None) -> str:
    """Formats a fraction as a percentage: ``61 %``, with one decimal below 10 %, or a dash."""
    return "\N{EN DASH}" if share is None else _typeset(_figures.percent(share))


def signed(share: float) -> str:
    """Formats a change with its sign: ``+3.0 %``."""
    return percent(share) if share <= 0 else "+" + percent(share)


def amount(value: float | None, is_share: bool) -> str:
    """Formats the value of a measure, as a percentage or with about two digits."""
    if is_share or value is None:
        return percent(value)
    return number(value) if value >= 10 else f"{value:.1f}".removesuffix(".0")


def scale_end(value: float, is_share: bool) -> str:
    """Formats a round number at the end of a scale: ``2.5 %``, ``0.8``."""
    return f"{value * 100:.3g}{NBSP}%" if is_share else f"{value:.3g}"


def spread(interval: Interval | None, is_share: bool) -> str:
    """Formats a confidence interval: both ends, or nothing if it has no width."""
    if interval is None or interval.low == interval.high:
        return ""
    low, high = (end * 100 if is_share else end for end in interval)
    digits = 1 if high < 9.95 else 0
    return f"{low:.{digits}f}\N{EN DASH}{high:.{digits}f}"


def change(removed: int) -> str:
    """Formats removed tokens, added ones with a plus sign, and an en dash for none."""
    if not removed:
        return "\N{EN DASH}"
    return number(removed) if removed > 0 else f"+{number(-removed)}"


def plain_number(value: float) -> str:
    """Formats a number without trailing zeros: ``80``, ``72.5``."""
    return f"{value:g}"


def seconds(value: float) -> str:
    """Formats a duration: ``1.4 ms``, ``3.2 s``, ``4 min``."""
    return _typeset(_figures.seconds(value))


def sentence(text: str) -> str:
    """Formats text as a sentence with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def spaced(name: str) -> str:
    """Replaces the underscores of an identifier with spaces."""
    return name.replace("_", " ")


def described(panel: UsagePanel) -> str:
    """Describes a chart in text, for screen readers."""
    report = panel.report
    text = (
        f"{counted(len(report.requests), 'request')} with {number(report.mean_tokens)} tokens on"
        f" average and {number(report.peak_tokens)} at the peak, in a window of"
        f" {number(report.context_limit)}. {counted(len(report.collections), 'collection')}"
    )
    if report.collections:
        freed = report.freed_by_reason.total()
        text += f", which freed {number(freed)} tokens"
    return f"{text}. {counted(report.overflows, 'request')} did not fit."


def _typeset(figure: str) -> str:
    """Returns a figure with a space before its unit, and with a real minus sign."""
    return re.sub("(?=[a-z%])(?<=[0-9])", NBSP, figure).replace("-", "\N{MINUS SIGN}")


def _printable(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return UNPRINTABLE.sub("\ufffd", value)
    return value
