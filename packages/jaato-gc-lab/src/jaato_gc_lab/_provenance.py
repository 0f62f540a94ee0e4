"""Where a report comes from: versions, prices, token counter and the command that repeats it."""

import shlex
from collections.abc import Mapping

from jaato_gc import GCConfig
from jaato_gc_lab._contenders import KEEP_LAST, NONE
from jaato_gc_lab._prices import Price
from jaato_gc_lab._runs import Runs


def provenance(
    runs: Runs, made_on: str, versions: Mapping[str, str], prices: Mapping[str, Price]
) -> dict[str, str]:
    """Returns the facts that a reader needs to judge and repeat a report, by name."""
    first = runs.reports[0]
    models = sorted({report.model for report in runs.reports})
    strategies = {report.strategy: report.distribution for report in runs.reports}
    facts = {
        "Date": made_on,
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Strategies": ", ".join(
            f"{name} ({distribution})" for name, distribution in strategies.items() if distribution
        ),
        "Prices": "; ".join(
            f"{model}, {_price(prices[model])}" if model in prices else model for model in models
        ),
        "Token counter": first.counter,
        "Repeat with": command(runs),
    }
    return {name: text for name, text in facts.items() if text}


def command(runs: Runs) -> str:
    """Returns the command that repeats a comparison, without the names of the files.

    A report may be published, and paths tell more about their owner than about the comparison.
    """
    usual = GCConfig()
    # Without collection, a session does not read the settings.
    first = next((each for each in runs.reports if each.strategy != NONE), runs.reports[0])
    strategies = [name for name in runs.collecting if name != KEEP_LAST] or [NONE]
    words = ["jaato-gc", "report", "FILES"]
    words += ["--context-limit", ",".join(map(_tokens, runs.context_limits))]
    words += ["--strategies", ",".join(strategies)]
    if first.threshold_percent != usual.threshold_percent:
        words += ["--threshold", f"{first.threshold_percent:g}"]
    if first.target_percent != usual.target_percent:
        words += ["--target", f"{first.target_percent:g}"]
    models = {report.model for report in runs.reports}
    if len(models) == 1 and first.model:  # else each run has the price of its own model
        words += ["--model", first.model]
    return shlex.join(words)


def _tokens(count: int) -> str:
    return str(count) if count % 1_000 else f"{count // 1_000}k"


def _price(price: Price) -> str:
    write = price.input if price.cache_write is None else price.cache_write
    return (
        f"looked up on {price.date}: {price.currency} per million tokens {price.input:g} input,"
        f" {price.output:g} output, {price.cache_read:g} cache read, {write:g} cache write"
    )
