"""Installed plugins, and whether they may be loaded."""

import functools
import logging
import os
import re
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from jaato_gc._version import __version__
from jaato_gc.plugins.hookspecs import PROJECT_NAME
from jaato_gc.plugins.protocol import FormatInfo, StrategyInfo, SummarizerInfo

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

logger = logging.getLogger("jaato_gc")

FACTORY_GROUP = "jaato.gc_plugins"
"""Another group of entry points: factories without arguments, named like their strategy."""

FACTORIES_FOR_JAATO = "jaato-gc-jaato"
"""The distribution whose factories are the strategies of this project, for jaato-server."""

HOST = "this process"
"""The distribution of plugins that the host registers itself."""

ALLOWED_VARIABLE = "JAATO_GC_LOAD_PLUGINS"
BLOCKED_VARIABLE = "JAATO_GC_DISABLED_PLUGINS"


class PluginStatus(StrEnum):
    """Whether an installed plugin can be used."""

    OK = "ok"
    """It is loaded."""
    BROKEN = "broken"
    """It can't be imported, or a hook is invalid."""
    BLOCKED = "blocked"
    """An environment variable excludes it."""
    SHADOWED = "shadowed"
    """It is a factory whose strategy a plugin with hooks offers too."""


@dataclass(slots=True)
class InstalledPlugin:
    """An installed plugin.

    Args:
        name: Name of its entry point.
        distribution: The distribution that it comes from.
        version: The version of that distribution.
        status: Whether it can be used.
        cause: Why it can't be used, if it can't.
        strategies: The strategies that it offers.
        formats: The formats that it offers.
        summarizers: The summarizers that it offers.
        options_model: The model of its own options, if it has one.
        core_range: The version of jaato-gc that it requires, such as ``jaato-gc<1,>=0.1``.
        is_factory: Whether it has no hooks, and only creates the strategy of its name.
    """

    name: str
    distribution: str
    version: str
    status: PluginStatus = PluginStatus.OK
    cause: str | None = None
    strategies: list[StrategyInfo] = field(default_factory=list)
    formats: list[FormatInfo] = field(default_factory=list)
    summarizers: list[SummarizerInfo] = field(default_factory=list)
    options_model: type[BaseModel] | None = None
    core_range: str | None = None
    is_factory: bool = False

    @property
    def origin(self) -> str:
        """The plugin with its distribution and version, for error messages."""
        return f"plugin {self.name!r} of {self.distribution} {self.version}".removesuffix(" -")

    def is_named(self, name: str) -> bool:
        """Returns whether a name is that of the plugin or of its distribution, in any spelling."""
        return _normalized(name) in (_normalized(self.name), _normalized(self.distribution))

    def comes_first_for(self, strategy: str) -> bool:
        """Returns whether the plugin is used for a strategy that others offer too.

        A plugin of the host is, and one with the strategy's name: it is used without loading the
        others, so whether they are loaded must make no difference.
        """
        has_its_name = _normalized(self.name) == _normalized(strategy)
        return not self.is_factory and (has_its_name or self.distribution == HOST)

    def fail(self, error: BaseException) -> None:
        """Marks the plugin as broken."""
        self.status = PluginStatus.BROKEN
        self.cause = f"{type(error).__name__}: {error}"
        if self.core_range:  # it may have been installed without its dependencies
            self.cause += f" (it requires {self.core_range}; this is {__version__})"
        logger.warning("%s can't be used: %s", self.origin, self.cause)

    def shadow(self, factory: "InstalledPlugin") -> None:
        """Marks a factory as shadowed if this plugin, which has hooks, offers the same strategy.

        A broken plugin shadows by its own name. Choosing it raises the cause, instead of quietly
        using a strategy of another distribution.
        """
        has_its_name = _normalized(self.name) == _normalized(factory.name)
        if any(info.name == factory.name for info in self.strategies):
            cause = "offers the same strategy"
        elif has_its_name and self.status is PluginStatus.BROKEN:
            cause = "has the same name"
        else:
            return
        factory.status = PluginStatus.SHADOWED
        factory.cause = f"{self.origin} {cause}"
        factory.strategies = []


class PluginEntryPoint(NamedTuple):
    """The entry point of a plugin, with what is known about its distribution.

    Args:
        entry_point: The entry point.
        distribution: The name of the distribution.
        version: The version of the distribution.
        core_range: The version of jaato-gc that it requires.
    """

    entry_point: "EntryPoint"
    distribution: str
    version: str
    core_range: str | None

    def record(self) -> InstalledPlugin:
        """Returns the record of the plugin, blocked if the environment says so."""
        name = self.entry_point.name
        record = InstalledPlugin(
            name,
            self.distribution,
            self.version,
            core_range=self.core_range,
            is_factory=self.entry_point.group == FACTORY_GROUP,
        )
        allowed, blocked = _names_in(ALLOWED_VARIABLE), _names_in(BLOCKED_VARIABLE)
        if any(map(record.is_named, blocked)):
            record.cause = f"it is named in {BLOCKED_VARIABLE}"
        elif allowed and not any(map(record.is_named, allowed)):
            record.cause = f"it is not named in {ALLOWED_VARIABLE}"
        if record.cause:
            record.status = PluginStatus.BLOCKED
        return record


def installed_entry_points() -> tuple[PluginEntryPoint, ...]:
    """Returns the entry points of all plugins, those with hook implementations first.

    Reading all distributions takes milliseconds, so it is done again only after something was
    installed: that changes a folder of the import path.
    """
    return _read_entry_points(tuple((folder, _modified(folder)) for folder in sys.path))


def _modified(folder: str) -> int | None:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return None


@functools.lru_cache(maxsize=1)
def _read_entry_points(_import_path: object) -> tuple[PluginEntryPoint, ...]:
    import importlib.metadata  # here, because it takes long to import

    groups = (PROJECT_NAME, FACTORY_GROUP)
    # The first of a name counts, as on sys.path.
    found: dict[tuple[int, str, str], PluginEntryPoint] = {}
    for distribution in importlib.metadata.distributions():
        try:
            for entry_point in distribution.entry_points:
                if entry_point.group in groups:
                    name, version = _name_and_version(distribution)
                    is_factory = entry_point.group == FACTORY_GROUP
                    if is_factory and _normalized(name) == FACTORIES_FOR_JAATO:
                        continue
                    key = (groups.index(entry_point.group), name, entry_point.name)
                    core_range = _core_range(distribution)
                    found.setdefault(key, PluginEntryPoint(entry_point, name, version, core_range))
        except Exception as error:
            name, _ = _name_and_version(distribution)
            cause = f"{type(error).__name__}: {error}"
            logger.warning("the entry points of %s can't be read: %s", name, cause)
    return tuple(found[key] for key in sorted(found, key=lambda key: key[0]))


def _name_and_version(distribution: "Distribution") -> tuple[str, str]:
    # Not distribution.name, which warns if there is none, and will raise.
    metadata: Any = distribution.metadata
    return metadata.get("Name", "an unknown distribution"), metadata.get("Version", "-")


def _core_range(distribution: "Distribution") -> str | None:
    is_core = re.compile(r"jaato[-_.]gc\s*[(<>=!~]").match
    return next(filter(is_core, distribution.requires or ()), None)


def _names_in(variable: str) -> list[str]:
    names = os.environ.get(variable, "").split(",")
    return [name.strip() for name in names if name.strip()]


def _normalized(name: str) -> str:
    """Returns one spelling for ``gc_mine`` and ``mine``, ``My_Plugin`` and ``my-plugin``."""
    return re.sub(r"[-_.]+", "-", name).lower().removeprefix("gc-")
