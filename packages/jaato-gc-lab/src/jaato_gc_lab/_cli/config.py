"""``jaato-gc config``: shows or validates a configuration, or prints the schema of one."""

import dataclasses
from pathlib import Path

import click

from jaato_gc import GCConfigError, GCError, GCPluginError
from jaato_gc_lab._cli._drawing import draw, say, say_heading, say_json
from jaato_gc_lab._cli._exits import Exit, print_error
from jaato_gc_lab._cli._options import EXISTING, json_option
from jaato_gc_lab._columns import Columns
from jaato_gc_lab._config_schema import config_schema
from jaato_gc_lab._effective import EffectiveConfig, Setting, effective_config

NO_FILE = ".jaato/gc.json does not exist, and neither does ~/.jaato/gc.json"

path_argument = click.argument("path", type=EXISTING, required=False)
profile_option = click.option(
    "--profile", metavar="NAME", help="Profile of a sub-agent in .jaato/profiles."
)


@click.group("config")
def command() -> None:
    """Show or validate a configuration.

    \b
    Examples:
      jaato-gc config show
      jaato-gc config validate .jaato/gc.json
      jaato-gc config show --profile research
      jaato-gc config schema > .jaato/gc.schema.json
    """


@command.command("show", short_help="Show every value and its origin.")
@path_argument
@profile_option
@json_option
def show(path: Path | None, profile: str | None, as_json: bool) -> None:
    """Show every value and its origin: file, environment or default.

    PATH is a gc.json or a profile; by default .jaato/gc.json, then ~/.jaato/gc.json.

    \b
    Examples:
      jaato-gc config show
      JAATO_GC_TARGET=50 jaato-gc config show my-gc.json --json
    """
    found = _read(path, profile)
    if as_json:
        say_json(dataclasses.asdict(found))
    else:
        _show(found)


@command.command("validate", short_help="Validate a configuration.")
@path_argument
@profile_option
def validate(path: Path | None, profile: str | None) -> Exit:
    """Validate a configuration; exit with 1 if it is invalid.

    PATH is a gc.json or a profile; by default .jaato/gc.json, then ~/.jaato/gc.json.

    \b
    Examples:
      jaato-gc config validate
      jaato-gc config validate .jaato/profiles/research.json
    """
    try:
        found = _read(path, profile)
    except (GCConfigError, GCPluginError) as error:
        print_error(str(error))
        return Exit.CHECK_FAILED
    if found.source is None:
        raise GCError(f"{NO_FILE}: pass the file to validate")
    if found.strategy is None:
        say(f"{found.source} is valid, but has no gc block: nothing is collected")
    else:
        say(f"{found.source} is valid: {found.strategy}")
    return Exit.OK


@command.command("schema", short_help="Print the JSON schema of gc.json.")
def schema() -> None:
    """Print the JSON schema of gc.json, with the options of all installed strategies.

    \b
    Examples:
      jaato-gc config schema > .jaato/gc.schema.json
    """
    say_json(config_schema())


def _read(path: Path | None, profile: str | None) -> EffectiveConfig:
    if path is not None and profile is not None:
        raise click.UsageError("pass a file or a profile, not both")
    if path is not None and not path.exists():
        raise GCError(f"{path} does not exist: pass a gc.json or a profile")
    return effective_config(path, profile)


def _show(found: EffectiveConfig) -> None:
    if found.source is None:
        say(f"{NO_FILE}: nothing is collected unless the host sets a strategy.")
    elif found.strategy is None:
        say(f"{found.source} has no gc block: nothing is collected.")
    else:
        say(f"{found.source}: {found.strategy}")
    say_heading("Settings")
    _show_settings(found.settings)
    if found.options:
        say_heading(f"Options of {found.strategy}")
        _show_settings(found.options)


def _show_settings(settings: list[Setting]) -> None:
    rows = [(each.key, _formatted(each.value), each.origin) for each in settings]
    draw(Columns(rows, ("key", "value", "origin"), flexible=1, left=(0, 2), drop=(2,)))


def _formatted(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "none"
    if isinstance(value, tuple):  # as in a JSON file
        return str(list(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
