"""Renders the files of a new plugin from the templates in templates/plugin."""

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from jaato_gc import GCError
from jaato_gc import __version__ as core_version
from jaato_gc_lab._plugin_names import PluginNames

License = Literal["MIT", "Apache-2.0", "none"]
LICENSES: tuple[License, ...] = get_args(License)
TEMPLATES = Path(__file__).parent / "templates"
RENDERED = ".j2"
"""Suffix of the files that are rendered. The others are copied."""


def project_files(
    names: PluginNames, *, author: str, license: License, year: int
) -> dict[str, bytes]:
    """Returns the contents of a plugin's repository, by path.

    Args:
        names: The names of the plugin.
        author: The author in the metadata and the licence, as printable text.
        license: The licence, or ``none`` for a repository without one.
        year: The year of the copyright.
    """
    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A TOML string has the escapes of a JSON string.
    jinja.filters["quoted"] = lambda text: json.dumps(text, ensure_ascii=False)
    jinja.globals.update(
        name=names.short,
        strategy=names.strategy,
        module=names.module,
        distribution=names.distribution,
        prefix=names.prefix,
        core_range=_core_range(),
        author=author,
        license="" if license == "none" else license,
        year=year,
    )
    files: dict[str, bytes] = {}
    for path in sorted((TEMPLATES / "plugin").rglob("*")):
        if path.is_file():
            source = path.relative_to(TEMPLATES).as_posix()
            content = path.read_bytes()
            if path.suffix == RENDERED:
                content = jinja.get_template(source).render().encode()
            target = source.removeprefix("plugin/").removesuffix(RENDERED)
            files[target.replace("__module__", names.module)] = content
    if license == "MIT":
        files["LICENSE"] = jinja.get_template("licenses/MIT.j2").render().encode()
    elif license == "Apache-2.0":
        files["LICENSE"] = _own_license().encode()
    return files


def _core_range() -> str:
    """Returns the range from this core up to the next release with breaking changes."""
    major, minor, *_ = core_version.split(".")
    return f">={major}.{minor},<{int(major) + 1}"


def _own_license() -> str:
    """Returns the licence of this distribution, which is Apache-2.0."""
    text = distribution("jaato-gc-lab").read_text("licenses/LICENSE")
    if text is None:
        raise GCError(
            "the text of Apache-2.0 is missing in the installed jaato-gc-lab: reinstall it or use "
            "another --license"
        )
    return text
