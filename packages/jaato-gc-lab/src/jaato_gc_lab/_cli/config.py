"""``jaato-gc config``: the effective configuration, and whether it is one."""

import dataclasses
from pathlib import Path

import click

from jaato_gc import GCConfigError, GCError, GCPluginError
from jaato_gc_lab._cli._drawing import say, say_heading, say_json, say_table
from jaato_gc_lab._cli._exits import Exit, complain
from jaato_gc_lab._cli._options import EXISTING, json_option
from jaato_gc_lab._effective import DEFAULT_FILE, EffectiveConfig, Setting, effective_config

path_argument = click.argument("path", type=EXISTING, required=False)
profile_option = click.option(
    "--profile", metavar="NAME", help="A sub-agent's profile, in .jaato/profiles."
)


@click.group("config")
def command() -> None:
    """Show or validate a configuration, and where each value is from.

    \b
    Examples:
      jaato-gc config show
      jaato-gc config validate .jaato/gc.json
      jaato-gc config show --profile research
    """


@command.command("show", short_help="Show every value, and where it is from.")
@path_argument
@profile_option
@json_option
def show(path: Path | None, profile: str | None, as_json: bool) -> None:
    """Show every value, and whether it is from the file, the environment or the default.

    PATH is a gc.json or a profile; .jaato/gc.json if not given.

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


@command.command("validate", short_help="Say whether a configuration can be used.")
@path_argument
@profile_option
def validate(path: Path | None, profile: str | None) -> Exit:
    """Say whether a configuration can be used; exit with 1 if it can't.

    PATH is a gc.json or a profile; .jaato/gc.json if not given.

    \b
    Examples:
      jaato-gc config validate
      jaato-gc config validate .jaato/profiles/research.json
    """
    try:
        found = _read(path, profile)
    except (GCConfigError, GCPluginError) as error:
        complain(str(error))
        return Exit.DOES_NOT_HOLD
    if found.source is None:
        raise GCError(f"there is no file {DEFAULT_FILE}: name the one to validate")
    if found.strategy is None:
        say(f"{found.source} is valid; it has no gc block, so nothing is collected")
    else:
        say(f"{found.source} is valid: {found.strategy}")
    return Exit.OK


def _read(path: Path | None, profile: str | None) -> EffectiveConfig:
    if path is not None and profile is not None:
        raise click.UsageError("name a file or a profile, not both")
    if path is not None and not path.exists():
        raise GCError(f"there is no file {path}")
    return effective_config(path, profile)


def _show(found: EffectiveConfig) -> None:
    if found.source is None:
        say(f"There is no {DEFAULT_FILE}: a host that names no strategy collects nothing.")
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
    say_table(
        ["key", "value", "from"],
        [(each.key, _shown(each.value), each.origin) for each in settings],
        left=(0, 1, 2),
        flexible=1,
    )


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
