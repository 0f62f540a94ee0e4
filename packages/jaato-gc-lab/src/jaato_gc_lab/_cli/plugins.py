"""``jaato-gc plugins``: lists the installed plugins."""

from collections.abc import Sequence

import click

from jaato_gc import PluginRegistry
from jaato_gc.plugin import FormatInfo, InstalledPlugin, StrategyInfo, SummarizerInfo
from jaato_gc_lab._cli._drawing import draw, say, say_heading, say_item, say_json
from jaato_gc_lab._cli._options import json_option
from jaato_gc_lab._columns import Columns, Name
from jaato_gc_lab._figures import counted


@click.command("plugins")
@json_option
def command(as_json: bool) -> None:
    """List the installed strategies, formats and summarizers.

    Shows each plugin with its distribution, version and status: ok, broken (with the cause),
    blocked, or shadowed by a plugin with the same strategy. A broken plugin does not affect the
    others.

    \b
    Examples:
      jaato-gc plugins
      JAATO_GC_DISABLED_PLUGINS=jaato-gc-hybrid jaato-gc plugins
    """
    installed = sorted(PluginRegistry().plugins(), key=lambda each: (each.name, each.distribution))
    if as_json:
        say_json({"plugins": [_data(plugin) for plugin in installed]})
        return
    if not installed:
        say("No plugins are installed. Install one with: pip install jaato-gc-budget")
        return
    rows = [
        (each.name, each.distribution, each.version, each.status.value, _contents(each))
        for each in installed
    ]
    headings = ("plugin", "distribution", "version", "status", "contents")
    draw(Columns(rows, headings, left=(1, 2, 3, 4)))
    for plugin in installed:
        if plugin.cause:
            say_item(f"{plugin.name} is {plugin.status.value}: {plugin.cause}")
    usable = [plugin for plugin in installed if not plugin.cause]
    _say_strategies([info for plugin in usable for info in plugin.strategies])
    _say_summaries("Formats", [info for plugin in usable for info in plugin.formats])
    _say_summaries("Summarizers", [info for plugin in usable for info in plugin.summarizers])


def _say_strategies(strategies: list[StrategyInfo]) -> None:
    if not strategies:
        return
    say_heading("Strategies")
    rows = [
        (
            info.name,
            "used" if info.budget_aware else "-",
            "required" if info.needs_summarizer else "-",
            Name("", info.summary),
        )
        for info in strategies
    ]
    headings = ("name", "budget", "summarizer", "summary")
    draw(Columns(rows, headings, flexible=3, left=(0, 1, 2), drop=(1, 2)))


def _say_summaries(heading: str, infos: Sequence[FormatInfo | SummarizerInfo]) -> None:
    if infos:
        say_heading(heading)
        rows = [(info.name, Name("", info.summary)) for info in infos]
        draw(Columns(rows, ("name", "summary"), flexible=1, left=(0,), drop=()))


def _contents(plugin: InstalledPlugin) -> str:
    if plugin.cause:
        return "-"
    kinds = {
        "strategy": len(plugin.strategies),
        "format": len(plugin.formats),
        "summarizer": len(plugin.summarizers),
    }
    counts = [counted(count, kind) for kind, count in kinds.items() if count]
    return ", ".join(counts) or "hooks"


def _data(plugin: InstalledPlugin) -> dict[str, object]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status.value,
        "cause": plugin.cause,
        "core_range": plugin.core_range,
        "strategies": [
            {
                "name": info.name,
                "summary": info.summary,
                "needs_summarizer": info.needs_summarizer,
                "budget_aware": info.budget_aware,
            }
            for info in plugin.strategies
        ],
        "formats": [{"name": info.name, "summary": info.summary} for info in plugin.formats],
        "summarizers": [
            {"name": info.name, "summary": info.summary} for info in plugin.summarizers
        ],
    }
