"""The registry of plugins: strategies, formats, stashes, counters and observers."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy
from pydantic import BaseModel, ValidationError

from jaato_gc.config import GCConfig, explain, split_options
from jaato_gc.errors import GCConfigError, GCPluginError, StashError
from jaato_gc.plugins import hookspecs
from jaato_gc.plugins.base import GCStrategy
from jaato_gc.plugins.discovery import (
    BLOCKED_VARIABLE,
    FACTORY_GROUP,
    InstalledPlugin,
    PluginStatus,
    installed_entry_points,
    record_of,
)
from jaato_gc.plugins.hookspecs import PROJECT_NAME, hookimpl
from jaato_gc.plugins.protocol import FormatInfo, GCPlugin, StrategyInfo
from jaato_gc.stash import Stash
from jaato_gc.tokens import TokenCounter, choose_counter

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("jaato_gc")

InfoT = TypeVar("InfoT", StrategyInfo, FormatInfo)

OWN_STRATEGIES = ("truncate", "summarize", "hybrid", "budget", "marksweep")
"""Strategies with a distribution ``jaato-gc-<name>`` that an error can suggest."""


class PluginRegistry:
    """The plugins of this environment, loaded on first use.

    A plugin that can't be loaded never hides the others: it is listed as broken, and choosing it
    raises the cause.

    Args:
        load_installed: False: only plugins that are given to `register`.
    """

    def __init__(self, *, load_installed: bool = True) -> None:
        self._manager = pluggy.PluginManager(PROJECT_NAME)
        self._manager.add_hookspecs(hookspecs)
        self._plugins: dict[str, InstalledPlugin] = {}
        self._to_load = load_installed
        self._observed: dict[str, bool] = {}

    def register(self, plugin: object, name: str) -> None:
        """Adds a plugin of the host: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations are invalid.
        """
        record = InstalledPlugin(name, "this process", "-")
        self._admit(plugin, record)
        if record.status is PluginStatus.BROKEN:
            raise GCPluginError(f"{record.origin} can't be used: {record.cause}")

    def plugins(self) -> list[InstalledPlugin]:
        """Returns every installed plugin, usable or not."""
        if self._to_load:
            self._to_load = False
            for entry_point in installed_entry_points():
                self._load(entry_point)
        return list(self._plugins.values())

    def strategies(self) -> dict[str, StrategyInfo]:
        """Returns the usable strategies, by name."""
        offers = self._offers()
        return {name: offers[name][0][1] for name in sorted(offers) if len(offers[name]) == 1}

    def formats(self) -> dict[str, FormatInfo]:
        """Returns the formats that only one plugin offers, by name."""
        found: dict[str, list[FormatInfo]] = {}
        for plugin in self.plugins():
            if plugin.status is PluginStatus.OK:
                for info in plugin.formats:
                    found.setdefault(info.name, []).append(info)
        return {name: found[name][0] for name in sorted(found) if len(found[name]) == 1}

    def create(self, name: str, config: Mapping[str, Any] | None = None) -> GCPlugin:
        """Returns a strategy, initialized with its options.

        Args:
            name: Its name, with or without ``gc_``.
            config: Its options.

        Raises:
            GCPluginError: It is not installed, or can't be used.
            GCConfigError: An option is unknown or has an invalid value.
        """
        plugin, info = self._choose(name)
        options = dict(config or {})
        try:
            strategy = info.factory()
            is_complete = not isinstance(strategy, GCStrategy) or strategy.is_complete()
            if isinstance(strategy, GCPlugin) and is_complete:
                # Our own base class validates its options itself.
                if info.config_model is not None and not isinstance(strategy, GCStrategy):
                    _check_options(info.name, options, info.config_model)
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
        missing = missing or "select"
        raise GCPluginError(f"{plugin.origin}: strategy {info.name!r} lacks {missing}")

    def token_counter(self, model: str | None = None) -> TokenCounter:
        """Returns the counter for a model: from a plugin, or core's choice."""
        counter = self._first("jaato_gc_token_counter", {"model": model}, TokenCounter)
        return counter or choose_counter(model)

    def stash(self, agent_id: str = "main") -> Stash | None:
        """Returns the stash that a plugin provides for an agent, if one does.

        Raises:
            StashError: The plugin can't provide it. Continuing without it would lose content.
        """
        stash: Stash | None = self._first("jaato_gc_stash", {"agent_id": agent_id}, Stash)
        return stash

    def _first(self, hook: str, arguments: Mapping[str, Any], kind: Any) -> Any:
        """Returns the first result of a hook. A plugin that fails is listed as broken."""
        for plugin, implementation in self._implementations(hook):
            try:
                answer = _call(implementation, arguments)
                if isinstance(answer, kind):
                    return answer
                if answer is not None:
                    raise GCPluginError(f"expected a {kind.__name__}, got {answer!r:.80}")
            except StashError:
                raise
            except Exception as error:
                plugin.fail(error)
        return None

    def is_observed(self, hook: str) -> bool:
        """Returns whether any plugin implements a hook."""
        known = self._observed.get(hook)
        if known is None:
            known = self._observed[hook] = any(True for _ in self._implementations(hook))
        return known

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls every observer of a hook. Errors are logged and do not stop the others."""
        for plugin, implementation in self._implementations(hook):
            try:
                _call(implementation, arguments)
            except Exception:
                logger.exception("%s failed in %s; nothing else is affected", plugin.origin, hook)

    def _implementations(self, hook: str) -> Iterator[tuple[InstalledPlugin, pluggy.HookImpl]]:
        self.plugins()
        # Pluggy lists them in reverse calling order.
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            yield self._plugins[implementation.plugin_name], implementation

    def _load(self, entry_point: "EntryPoint") -> None:
        record = record_of(entry_point)
        if record.status is PluginStatus.BLOCKED:
            self._list(record)
            return
        try:
            loaded = entry_point.load()
        except (Exception, SystemExit) as error:  # an import may raise anything
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
            # By name: the same object may be registered under another one.
            if self._manager.has_plugin(key):
                self._manager.unregister(name=key)
            record.fail(error)

    def _announced(self, hook: str, plugin: object, kind: type[InfoT]) -> list[InfoT]:
        """Returns what a plugin registers through a hook."""
        found: list[InfoT] = []
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            if implementation.plugin is plugin:
                for info in _call(implementation, {}):
                    if not isinstance(info, kind) or not isinstance(info.name, str):
                        raise GCPluginError(f"{hook}: expected a {kind.__name__}, got {info!r:.80}")
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
        import difflib  # here, because only mistakes need it

        near = difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(
            f"gc_{name}", known, n=1
        )
        hint = f"did you mean {near[0]!r}? " if near else ""
        unusable = [plugin for plugin in self.plugins() if plugin.status is not PluginStatus.OK]
        others = "".join(f"; {plugin.origin} is {plugin.status}" for plugin in unusable)
        return (
            f"unknown strategy {name!r}: {hint}"
            f"installed strategies are {', '.join(installed) or 'none'}{others}"
        )


class _FactoryPlugin:
    """A factory as a plugin."""

    def __init__(self, info: StrategyInfo) -> None:
        self._info = info

    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [self._info]


def discover_gc_plugins(registry: PluginRegistry | None = None) -> dict[str, StrategyInfo]:
    """Returns the usable installed strategies, by name."""
    return (registry or PluginRegistry()).strategies()


def load_gc_plugin(
    name: str,
    config: Mapping[str, Any] | None = None,
    registry: PluginRegistry | None = None,
) -> GCPlugin:
    """Returns a strategy by name, initialized with its options: see `PluginRegistry.create`."""
    return (registry or PluginRegistry()).create(name, config)


def _spellings(name: str) -> tuple[str, str, str]:
    return name, f"gc_{name}", name.removeprefix("gc_")


def _check_options(name: str, options: Mapping[str, Any], model: type[BaseModel]) -> None:
    own, overrides = split_options(name, options, model)
    GCConfig().for_one_collection(overrides)
    try:
        model(**own)
    except ValidationError as error:
        raise GCConfigError(f"{name}: {explain(error, model.model_fields)}") from None


def _call(implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
    return implementation.function(*(arguments[name] for name in implementation.argnames))
