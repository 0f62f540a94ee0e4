"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from jaato_gc import GCConfig, GCError, GCProfileConfig, load_gc_from_file
from jaato_gc.plugin import GCStrategy, read_json
from jaato_gc_lab._cli._inputs import InputFile
from jaato_gc_lab._cli._numbers import PERCENT, TOKENS, CommaSeparated, OverheadType

F = TypeVar("F", bound=Callable[..., Any])

MEASURES = """\b
refused runs  runs with a request that does not fit, and the median share of
              the run before it. The run counts as over from there: all that
              it uses later counts as lost.
blind edits   edits that quote text which was in the context and no longer is.
              An agent could read the file again first.
lost context  names in calls that are no longer next to the same text as in
              the original. A name in a summary or a list does not count.
lost names    names used later that are nowhere any more. Weak: a list of
              words keeps names, but no content.
re-reads      files that would have to be read again
violations    problems that make a provider reject a request; should be 0
cost          compared with keep-last, including rewrites of the prompt cache,
              over the runs that both finished (in brackets if not all did)
cannot fit    runs whose system prompt, tools, first and newest user message
              exceed the window; they count for no strategy

All of them compare strings in recordings. None shows that a model would answer
better or worse.
"""
"""Definitions of the measures, for ``--help``."""

EXISTING = InputFile()
"""An input file, or ``-`` for stdin."""
NEW = click.Path(path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
strategies_option = click.option(
    "-s",
    "--strategies",
    type=CommaSeparated(click.STRING),
    metavar="A,B,…",
    help="Strategies; by default all installed ones.",
)
context_limits_option = click.option(
    "-l",
    "--context-limit",
    "context_limits",
    type=CommaSeparated(TOKENS),
    default="128k",
    metavar="TOKENS,…",
    help="Window sizes (128k).",
)
conversation_option = click.option(
    "-c",
    "--conversation",
    type=click.IntRange(1),
    metavar="N",
    help="Number of the conversation, if there are several.",
)
force_option = click.option("--force", is_flag=True, help="Replace existing files.")
format_option = click.option(
    "--format", metavar="NAME", help="Format of the file; detected by default."
)
model_option = click.option(
    "--model", metavar="NAME", help="Model whose prices apply; by default the one in the log."
)
prices_option = click.option(
    "--prices", type=EXISTING, metavar="FILE", help="Your own price table (TOML)."
)
overhead_option = click.option(
    "--overhead",
    type=OverheadType(),
    default="auto",
    metavar="auto|none|N",
    help="Tokens of every request that the logs do not show, such as the system prompt and the "
    "tools; auto estimates them from the reported usage (auto).",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 512),
    metavar="N",
    help="Number of processes; by default one per processor.",
)
_ALLOW_CODE = "jaato_gc_lab.allow_code"


def _remember(context: click.Context, _option: click.Parameter, is_allowed: bool) -> None:
    context.meta[_ALLOW_CODE] = is_allowed


def config_option(command: F) -> F:
    """Adds the options for a configuration file to a command."""
    allow_code = click.option(
        "--allow-code",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Import the module that the file names as summarizer, and call it.",
    )
    file = click.option(
        "--config",
        "config_file",
        type=EXISTING,
        metavar="FILE",
        help="Configuration file, such as .jaato/gc.json.",
    )
    return file(allow_code(command))


def tuning_options(command: F) -> F:
    """Adds the options for threshold, target and protected turns to a command."""
    for option in (
        click.option(
            "--keep-turns",
            type=click.IntRange(0),
            metavar="N",
            help="Number of recent turns to keep (5).",
        ),
        click.option(
            "--target", type=PERCENT, metavar="PERCENT", help="Usage after a collection (60)."
        ),
        click.option(
            "--threshold",
            type=PERCENT,
            metavar="PERCENT",
            help="Usage that starts a collection (80).",
        ),
    ):
        command = option(command)
    return command


def configured(
    strategy: str | None,
    config_file: Path | None,
    *,
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
) -> tuple[str | None, GCConfig]:
    """Returns strategy name and configuration from a file and options. Options take precedence.

    Raises:
        GCConfigError: The configuration is invalid.
    """
    named, settings = _from_file(config_file) if config_file else (None, {})
    given = {
        "threshold_percent": threshold,
        "target_percent": target,
        "preserve_recent_turns": keep_turns,
    }
    settings |= {key: value for key, value in given.items() if value is not None}
    if target is not None and threshold is None and "threshold_percent" not in settings:
        # A target above the default threshold must not fail if no threshold is given.
        settings["threshold_percent"] = max(GCConfig().threshold_percent, min(target + 1, 100.0))
    return strategy or named, GCConfig(**settings)


def _from_file(path: Path) -> tuple[str, dict[str, Any]]:
    allow_code = click.get_current_context().meta[_ALLOW_CODE]
    loaded = load_gc_from_file(path, allow_code=allow_code)
    if loaded is None:
        raise GCError(f"{path} does not exist: pass a configuration such as .jaato/gc.json")
    plugin, config = loaded
    if isinstance(plugin, GCStrategy):
        options = dict(plugin.options)
    else:
        document = read_json(path)
        options = GCProfileConfig.from_dict(document, from_json=True).to_plugin_config()
    return plugin.name, {**config.given(), "plugin_config": options}
