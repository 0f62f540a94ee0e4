"""Which plugins are installed, and which of them can be used."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy
from pydantic import BaseModel, ValidationError

from jaato_gc import _hookspecs
from jaato_gc._config import GCConfigOverrides, explain
from jaato_gc._errors import GCConfigError, GCPluginError, StashError
from jaato_gc._formats import FormatInfo
from jaato_gc._hookspecs import PROJECT_NAME, hookimpl
from jaato_gc._stash import Stash
from jaato_gc._strategy import GCPlugin, StrategyInfo, split_options
from jaato_gc._tokens import TokenCounter, choose_counter
from jaato_gc._version import __version__

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

logger = logging.getLogger("jaato_gc")

InfoT = TypeVar("InfoT", StrategyInfo, FormatInfo)

FACTORY_GROUP = "jaato.gc_plugins"
"""A second group of entry points, of zero-argument factories named like their strategy."""

OWN_STRATEGIES = ("truncate", "summarize", "hybrid", "budget", "marksweep")
"""Strategies that have a distribution ``jaato-gc-<name>`` to suggest."""

ALLOWED_VARIABLE = "JAATO_GC_LOAD_PLUGINS"
BLOCKED_VARIABLE = "JAATO_GC_DISABLED_PLUGINS"


class PluginStatus(StrEnum):
    """Whether an installed plugin can be used."""

    OK = "ok"
    BROKEN = "broken"
    BLOCKED = "blocked"


@dataclass(slots=True)
class InstalledPlugin:
    """One plugin as a registry sees it.

    Args:
        name: Name of its entry point.
        distribution: Who ships it.
        version: That distribution's version.
        status: Whether it can be used.
        cause: Why not, if it can't.
        strategies: The strategies that it offers.
        formats: The formats that it offers.
        core_range: What its distribution asks of jaato-gc, such as ``jaato-gc<1,>=0.2``.
    """

    name: str
    distribution: str
    version: str
    status: PluginStatus = PluginStatus.OK
    cause: str | None = None
    strategies: list[StrategyInfo] = field(default_factory=list)
    formats: list[FormatInfo] = field(default_factory=list)
    core_range: str | None = None

    @property
    def origin(self) -> str:
        """Who is meant, for messages."""
        return f"plugin {self.name!r} of {self.distribution} {self.version}".removesuffix(" -")

    def fail(self, error: BaseException) -> None:
        self.status = PluginStatus.BROKEN
        self.cause = f"{type(error).__name__}: {error}"
        if self.core_range:  # forced in, it may be here although it asks for another core
            self.cause += f" (it asks for {self.core_range}; this is {__version__})"
        logger.warning("%s can't be used: %s", self.origin, self.cause)


class PluginRegistry:
    """The plugins of this environment. Nothing is loaded before something is asked for.

    A plugin that can't be loaded never hides the others: it is listed as broken, and choosing it
    raises the cause.

    Args:
        load_installed: False: only what is given to `register`.
    """

    def __init__(self, *, load_installed: bool = True) -> None:
        self._manager = pluggy.PluginManager(PROJECT_NAME)
        self._manager.add_hookspecs(_hookspecs)
        self._plugins: dict[str, InstalledPlugin] = {}
        self._to_load = load_installed
        self._observed: dict[str, bool] = {}

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin of the host's own: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations don't fit.
        """
        record = InstalledPlugin(name, "this process", "-")
        self._admit(plugin, record)
        if record.status is PluginStatus.BROKEN:
            raise GCPluginError(f"{record.origin} can't be used: {record.cause}")

    def plugins(self) -> list[InstalledPlugin]:
        """Every installed plugin, usable or not."""
        if self._to_load:
            self._to_load = False
            for entry_point in _installed_entry_points():
                self._load(entry_point)
        return list(self._plugins.values())

    def strategies(self) -> dict[str, StrategyInfo]:
        """The strategies that can be chosen, by name."""
        offers = self._offers()
        return {name: offers[name][0][1] for name in sorted(offers) if len(offers[name]) == 1}

    def formats(self) -> dict[str, FormatInfo]:
        """The formats that are announced once, by name."""
        found: dict[str, list[FormatInfo]] = {}
        for plugin in self.plugins():
            if plugin.status is PluginStatus.OK:
                for info in plugin.formats:
                    found.setdefault(info.name, []).append(info)
        return {name: found[name][0] for name in sorted(found) if len(found[name]) == 1}

    def create(self, name: str, config: Mapping[str, Any] | None = None) -> GCPlugin:
        """A strategy, ready for use.

        Args:
            name: Its name, with or without ``gc_``.
            config: Its options.

        Raises:
            GCPluginError: It is not installed, or can't be used.
            GCConfigError: An option is unknown or has a bad value.
        """
        plugin, info = self._choose(name)
        options = dict(config or {})
        if info.config_model is not None:
            _check_options(info.name, options, info.config_model)
        try:
            strategy = info.factory()
            if isinstance(strategy, GCPlugin):
                strategy.initialize(options)
                return strategy
        except GCConfigError:
            raise
        except Exception as error:
            raise GCPluginError(
                f"{plugin.origin} failed to set up {info.name!r}: {type(error).__name__}: {error}"
            ) from error
        members = ("name", "initialize", "shutdown", "should_collect", "collect")
        missing = ", ".join(member for member in members if not hasattr(strategy, member))
        raise GCPluginError(f"{plugin.origin}: {info.name!r} is no strategy: it lacks {missing}")

    def token_counter(self, model: str | None = None) -> TokenCounter:
        """The counter for a model: a plugin's, or core's choice."""
        counter = self._first("jaato_gc_token_counter", {"model": model}, TokenCounter)
        return counter or choose_counter(model)

    def stash(self, agent_id: str = "main") -> Stash | None:
        """The stash that a plugin provides for an agent, if one does.

        Raises:
            StashError: It should, and can't: to go on without would lose content.
        """
        stash: Stash | None = self._first("jaato_gc_stash", {"agent_id": agent_id}, Stash)
        return stash

    def _first(self, hook: str, arguments: Mapping[str, Any], kind: Any) -> Any:
        """The first answer to a hook; a plugin that fails is listed as broken and passed over."""
        for plugin, implementation in self._implementations(hook):
            try:
                answer = _call(implementation, arguments)
                if isinstance(answer, kind):
                    return answer
                if answer is not None:
                    raise GCPluginError(f"{answer!r:.80} is no {kind.__name__}")
            except StashError:
                raise
            except Exception as error:
                plugin.fail(error)
        return None

    def is_observed(self, hook: str) -> bool:
        """Whether anyone implements a hook."""
        known = self._observed.get(hook)
        if known is None:
            known = self._observed[hook] = any(True for _ in self._implementations(hook))
        return known

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call every observer of a hook; what fails is logged and stops nobody."""
        for plugin, implementation in self._implementations(hook):
            try:
                _call(implementation, arguments)
            except Exception:
                logger.exception("%s failed in %s; nothing else is affected", plugin.origin, hook)

    def _implementations(self, hook: str) -> Iterator[tuple[InstalledPlugin, pluggy.HookImpl]]:
        self.plugins()
        # Pluggy keeps them in the reverse of their order of calling.
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            yield self._plugins[implementation.plugin_name], implementation

    def _load(self, entry_point: "EntryPoint") -> None:
        record = InstalledPlugin(entry_point.name, *_name_and_version(entry_point.dist))
        record.core_range = _core_range(entry_point.dist)
        if cause := _why_blocked(record):
            record.status, record.cause = PluginStatus.BLOCKED, cause
            self._list(record)
            return
        try:
            loaded = entry_point.load()
        except (Exception, SystemExit) as error:  # whatever an import may do
            record.fail(error)
            self._list(record)
            return
        if entry_point.group == FACTORY_GROUP:
            loaded = _FactoryPlugin(StrategyInfo(entry_point.name, loaded))
        self._admit(loaded, record)

    def _list(self, record: InstalledPlugin) -> str:
        # Numbered, because two distributions may use the same name.
        key = f"{record.name}#{len(self._plugins)}"
        self._plugins[key] = record
        return key

    def _admit(self, plugin: object, record: InstalledPlugin) -> None:
        key = self._list(record)
        self._observed.clear()
        try:
            self._manager.register(plugin, name=key)
            self._manager.check_pending()
            for caller in self._manager.get_hookcallers(plugin) or ():
                for implementation in caller.get_hookimpls():
                    if implementation.plugin is plugin and (
                        implementation.wrapper or implementation.hookwrapper
                    ):
                        raise GCPluginError(f"{caller.name} can't be wrapped, only implemented")
            record.strategies = self._announced(
                "jaato_gc_register_strategies", plugin, StrategyInfo
            )
            record.formats = self._announced("jaato_gc_register_formats", plugin, FormatInfo)
        except Exception as error:
            # By name: the same object may be registered under another one, in good order.
            if self._manager.has_plugin(key):
                self._manager.unregister(name=key)
            record.fail(error)

    def _announced(self, hook: str, plugin: object, kind: type[InfoT]) -> list[InfoT]:
        """What a plugin announces through a hook."""
        found: list[InfoT] = []
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            if implementation.plugin is plugin:
                for info in _call(implementation, {}):
                    if not isinstance(info, kind) or not isinstance(info.name, str):
                        raise GCPluginError(f"{hook} gave {info!r:.80}, not a {kind.__name__}")
                    found.append(info)
        return found

    def _offers(self) -> dict[str, list[tuple[InstalledPlugin, StrategyInfo]]]:
        offers: dict[str, list[tuple[InstalledPlugin, StrategyInfo]]] = {}
        for plugin in self.plugins():
            if plugin.status is PluginStatus.OK:
                for info in plugin.strategies:
                    offers.setdefault(info.name, []).append((plugin, info))
        return offers

    def _choose(self, name: str) -> tuple[InstalledPlugin, StrategyInfo]:
        offers = self._offers()
        for spelling in _spellings(name):
            if found := offers.get(spelling):
                if len(found) > 1:
                    raise GCPluginError(
                        f"strategy {spelling!r} is offered by "
                        + " and by ".join(plugin.origin for plugin, _ in found)
                        + f": uninstall one, or name its distribution in {BLOCKED_VARIABLE}"
                    )
                return found[0]
        raise GCPluginError(self._why_missing(name, offers))

    def _why_missing(self, name: str, offers: Mapping[str, object]) -> str:
        for plugin in self.plugins():
            names = {plugin.name, *(info.name for info in plugin.strategies)}
            if plugin.status is not PluginStatus.OK and names.intersection(_spellings(name)):
                return f"strategy {name!r} can't be used: {plugin.origin} is {plugin.status}: " + (
                    plugin.cause or ""
                )
        short = name.removeprefix("gc_")
        if short in OWN_STRATEGIES:
            return f"strategy {name!r} is not installed: pip install jaato-gc-{short}"
        installed = sorted(offers)
        known = [*installed, *OWN_STRATEGIES]
        import difflib  # here, because it is needed for mistakes alone

        near = difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(
            f"gc_{name}", known, n=1
        )
        hint = f"did you mean {near[0]!r}? " if near else ""
        unusable = [plugin for plugin in self.plugins() if plugin.status is not PluginStatus.OK]
        others = "".join(f"; {plugin.origin} is {plugin.status}" for plugin in unusable)
        return (
            f"unknown strategy {name!r}: {hint}"
            f"installed are {', '.join(installed) or 'none'}{others}"
        )


class _FactoryPlugin:
    """A bare factory in the shape of a plugin."""

    def __init__(self, info: StrategyInfo) -> None:
        self._info = info

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [self._info]


def discover_gc_plugins(registry: PluginRegistry | None = None) -> dict[str, StrategyInfo]:
    """The installed strategies that can be used, by name."""
    return (registry or PluginRegistry()).strategies()


def load_gc_plugin(
    name: str,
    config: Mapping[str, Any] | None = None,
    registry: PluginRegistry | None = None,
) -> GCPlugin:
    """A strategy by name, with its options, ready for use. See `PluginRegistry.create`."""
    return (registry or PluginRegistry()).create(name, config)


def _installed_entry_points() -> "list[EntryPoint]":
    import importlib.metadata  # here, because it takes as long to import as all of core

    groups = (PROJECT_NAME, FACTORY_GROUP)
    try:
        return [
            entry_point
            for group in groups
            for entry_point in importlib.metadata.entry_points(group=group)
        ]
    except Exception:
        logger.debug("Reading distributions one by one: one of them is broken.", exc_info=True)
    # The first of a name is the one that counts, as on sys.path.
    found: dict[tuple[str, str, str], EntryPoint] = {}
    for distribution in importlib.metadata.distributions():
        try:
            for entry_point in distribution.entry_points:
                if entry_point.group in groups:
                    name, _ = _name_and_version(distribution)
                    key = (entry_point.group, name, entry_point.name)
                    found.setdefault(key, entry_point)
        except Exception as error:
            logger.warning(
                "the entry points of %s can't be read: %s: %s",
                _name_and_version(distribution)[0],
                type(error).__name__,
                error,
            )
    return sorted(found.values(), key=lambda entry_point: groups.index(entry_point.group))


def _name_and_version(distribution: "Distribution | None") -> tuple[str, str]:
    # Not by distribution.name, which warns where there is none, and will raise.
    metadata: Any = distribution.metadata if distribution else {}
    return metadata.get("Name", "an unknown distribution"), metadata.get("Version", "-")


def _core_range(distribution: "Distribution | None") -> str | None:
    needs = (distribution.requires if distribution else None) or ()
    return next((each for each in needs if re.match(r"jaato[-_.]gc\s*[(<>=!~]", each)), None)


def _spellings(name: str) -> tuple[str, str, str]:
    return name, f"gc_{name}", name.removeprefix("gc_")


def _check_options(name: str, options: Mapping[str, Any], model: type[BaseModel]) -> None:
    own, shared = split_options(name, options, model)
    GCConfigOverrides(**shared)
    try:
        model(**own)
    except ValidationError as error:
        raise GCConfigError(f"{name}: {explain(error, model.model_fields)}") from None


def _call(implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
    return implementation.function(*(arguments[name] for name in implementation.argnames))


def _why_blocked(plugin: InstalledPlugin) -> str | None:
    names = {_normalized(plugin.name), _normalized(plugin.distribution)}
    allowed, blocked = _names_in(ALLOWED_VARIABLE), _names_in(BLOCKED_VARIABLE)
    if names & blocked:
        return f"it is named in {BLOCKED_VARIABLE}"
    if allowed and not names & allowed:
        return f"it is not named in {ALLOWED_VARIABLE}"
    return None


def _names_in(variable: str) -> set[str]:
    names = os.environ.get(variable, "").split(",")
    return {_normalized(name.strip()) for name in names if name.strip()}


def _normalized(name: str) -> str:
    """One spelling for ``gc_mine`` and ``mine``, ``My_Plugin`` and ``my-plugin``."""
    return re.sub(r"[-_.]+", "-", name).lower().removeprefix("gc-")
