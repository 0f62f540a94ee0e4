"""Options that several commands have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from jaato_gc import GCConfig, GCError, load_gc_from_file
from jaato_gc_lab._cli._numbers import PERCENT

F = TypeVar("F", bound=Callable[..., Any])

EXISTING = click.Path(path_type=Path)
"""Checked when it is read, which says more about what is wrong."""
NEW = click.Path(path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
format_option = click.option(
    "--format", metavar="NAME", help="The file's format, if it is not found out."
)
model_option = click.option("--model", metavar="NAME", help="Whose prices count.")
prices_option = click.option(
    "--prices", type=EXISTING, metavar="FILE", help="A price table of your own, in TOML."
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 512),
    metavar="N",
    help="How many processes; one per processor if not given.",
)
config_option = click.option(
    "--config",
    "config_file",
    type=EXISTING,
    metavar="FILE",
    help="Strategy and settings from a file, such as .jaato/gc.json.",
)


def tuning_options(command: F) -> F:
    """When to collect, and how far."""
    for option in (
        click.option(
            "--keep-turns",
            type=click.IntRange(0),
            metavar="N",
            help="The last turns, which are never removed (5).",
        ),
        click.option(
            "--target", type=PERCENT, metavar="PERCENT", help="Where a collection ends (60)."
        ),
        click.option(
            "--threshold",
            type=PERCENT,
            metavar="PERCENT",
            help="How full the window is when it starts (80).",
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
    """Strategy and configuration, from a file and from options, which prevail.

    Raises:
        GCConfigError: They are not valid, or don't fit together.
    """
    named, settings = _from_file(config_file) if config_file else (None, {})
    given = {
        "threshold_percent": threshold,
        "target_percent": target,
        "preserve_recent_turns": keep_turns,
    }
    settings |= {key: value for key, value in given.items() if value is not None}
    if target is not None and threshold is None and "threshold_percent" not in settings:
        # Only the target counts for who names only that.
        settings["threshold_percent"] = max(GCConfig().threshold_percent, min(target + 1, 100.0))
    return strategy or named, GCConfig(**settings)


def _from_file(path: Path) -> tuple[str, dict[str, Any]]:
    loaded = load_gc_from_file(path)
    if loaded is None:
        raise GCError(f"there is no file {path}: name one such as .jaato/gc.json")
    plugin, config = loaded
    document = json.loads(path.read_text(encoding="utf-8-sig"))
    flat = {**document, **document.get("config", {})}
    known = {*GCConfig.model_fields, "type", "plugin", "config"}
    options = {key: value for key, value in flat.items() if key not in known}
    return plugin.name, {**config.given(), "plugin_config": options | config.plugin_config}
