"""``jaato-gc new-plugin``: creates the repository of a plugin."""

import importlib.metadata
import shlex
import subprocess
from datetime import date
from pathlib import Path

import click

from jaato_gc import GCError
from jaato_gc_lab._cli._drawing import say, say_lines
from jaato_gc_lab._cli._options import NEW
from jaato_gc_lab._files import write_folder
from jaato_gc_lab._plugin_names import PluginNames
from jaato_gc_lab._plugin_project import LICENSES, License, project_files
from jaato_gc_lab._text import UNPRINTABLE, clean

KIT = "jaato-gc-testing"


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "-d",
    "--directory",
    type=NEW,
    metavar="FOLDER",
    help="Folder to create; by default jaato-gc-NAME.",
)
@click.option(
    "--license", type=click.Choice(LICENSES), default="MIT", help="Licence of the plugin (MIT)."
)
@click.option("--author", metavar="NAME", help="Author; by default the user.name of git.")
def command(name: str, directory: Path | None, license: License, author: str | None) -> None:
    """Create a repository for your own strategy.

    The repository contains a working strategy to change, its tests with the conformance kit, and a
    CI workflow that also publishes tagged versions. NAME is the name of the strategy, such as todos
    for gc_todos.

    \b
    Examples:
      jaato-gc new-plugin todos
      jaato-gc new-plugin todos --license Apache-2.0 --author "Ana Doe"
      jaato-gc new-plugin todos --directory ~/projects/todos
    """
    names = PluginNames.parse(name)
    _refuse_installed(names)
    if author is None:
        author = _git_user() or f"The {names.distribution} authors"
    author = author.strip()
    if not author or UNPRINTABLE.search(author):
        raise GCError(f"invalid author {author!r:.80}: pass a name in one line with --author")
    folder = directory or Path(names.distribution)
    files = project_files(names, author=author, license=license, year=date.today().year)
    write_folder(folder, files)
    say(f"Created {folder} with the strategy {names.strategy}")
    place = clean(shlex.quote(str(folder)))
    steps = (
        f"Install it with pip 25.1 or newer: cd {place} && pip install --editable . --group dev",
        f"Change it: edit select in src/{names.module}/__init__.py",
        "Test it: pytest",
    )
    say_lines(steps)  # not wrapped, to be copied


def _refuse_installed(names: PluginNames) -> None:
    """Raises an error for the name of another distribution, which the plugin would replace."""
    try:
        importlib.metadata.distribution(names.distribution)
    except importlib.metadata.PackageNotFoundError:
        if names.distribution != KIT:  # which the tests of the plugin import
            return
    raise GCError(
        f"{names.distribution} is the name of another distribution: choose another name, or "
        "uninstall it if it is yours"
    )


def _git_user() -> str | None:
    """Returns the ``user.name`` of git, if there is one."""
    try:
        found = subprocess.run(
            ["git", "config", "user.name"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError:  # git is not installed
        return None
    return found.stdout.strip() or None
