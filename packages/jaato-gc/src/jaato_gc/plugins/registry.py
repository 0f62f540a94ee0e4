"""The registry of plugins: strategies, formats, stashes, counters and observers."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pluggy

from jaato_gc.config import validate_options
from jaato_gc.deadline import is_failure
from jaato_gc.errors import GCConfigError, GCPluginError, StashError
from jaato_gc.plugins import hookspecs
from jaato_gc.plugins.base import GCStrategy
from jaato_gc.plugins.discovery import (
    BLOCKED_VARIABLE,
    InstalledPlugin,
    PluginEntryPoint,
    PluginStatus,
    installed_entry_points,
)
from jaato_gc.plugins.hook_calls import announced, announced_model, call, check_implementation
from jaato_gc.plugins.hookspecs import PROJECT_NAME
from jaato_gc.plugins.plugin_options import find_plugin, read_options
from jaato_gc.plugins.protocol import FormatInfo, GCPlugin, StrategyInfo
from jaato_gc.settings import closest, options_from_json
from jaato_gc.stash import Stash
from jaato_gc.tokens import TokenCounter, choose_counter

logger = logging.getLogger("jaato_gc")

InfoT = TypeVar("InfoT", StrategyInfo, FormatInfo)

OWN_STRATEGIES = ("truncate", "summarize", "hybrid", "budget", "marksweep")
"""Strategies with a distribution ``jaato-gc-<name>`` that an error can suggest."""


class PluginRegistry:
    """The plugins of this environment, loaded on first use. Threads may share a registry.

    A plugin that can't be loaded never hides the others: it is listed as broken, and choosing it
    raises the cause. A plugin with hooks shadows a factory of the same strategy, so that
    jaato-server can be installed beside the strategies of this project.

    Args:
        load_installed: False: only plugins that are given to `register`.
    """

    def __init__(self, *, load_installed: bool = True) -> None:
        self._manager = pluggy.PluginManager(PROJECT_NAME)
        self._manager.add_hookspecs(hookspecs)
        self._plugins: dict[str, InstalledPlugin] = {}
        self._is_loaded = not load_installed
        self._to_load: deque[PluginEntryPoint] | None = None
        """Installed plugins that are not loaded yet; ``None``: not looked for yet."""
        self._is_loading = False
        self._lock = threading.RLock()  # reentrant: a plugin may use the registry as it is loaded

    def register(self, plugin: object, name: str) -> None:
        """Adds a plugin of the host: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations are invalid.
        """
        record = InstalledPlugin(name, "this process", "-")
        with self._lock:
            try:
                self._admit(plugin, record, self._list(record))
            except Exception as error:
                record.fail(error)
                raise GCPluginError(f"{record.origin} can't be used: {record.cause}") from error
            finally:
                self._shadow_factories()

    def plugins(self) -> list[InstalledPlugin]:
        """Returns every installed plugin, usable or not."""
        self._load_installed()
        with self._lock:
            return list(self._plugins.values())

    def _load_installed(self) -> None:
        """Loads the installed plugins, once. Other threads wait until all are loaded."""
        if self._is_loaded:
            return
        with self._lock:
            if self._is_loading:  # by this thread: a plugin that is loaded sees those before it
                return
            self._is_loading = True
            try:
                if self._to_load is None:
                    self._to_load = deque(installed_entry_points())
                while self._to_load:  # emptied one by one: loading may be interrupted
                    self._load(self._to_load.popleft())
                self._is_loaded = True
            finally:
                self._is_loading = False

    def strategies(self) -> dict[str, StrategyInfo]:
        """Returns the strategies that only one plugin offers, by name."""
        return _unambiguous(self._offers(lambda plugin: plugin.strategies))

    def formats(self) -> dict[str, FormatInfo]:
        """Returns the formats that only one plugin offers, by name."""
        return _unambiguous(self._offers(lambda plugin: plugin.formats))

    def info(self, name: str) -> StrategyInfo:
        """Returns how a plugin announces a strategy.

        Args:
            name: Its name, with or without ``gc_``.

        Raises:
            GCPluginError: It is not installed, or can't be used.
        """
        return self._choose(name)[1]

    def create(
        self, name: str, config: Mapping[str, Any] | None = None, *, from_json: bool = False
    ) -> GCPlugin:
        """Returns a strategy, initialized with its options.

        Args:
            name: Its name, with or without ``gc_``.
            config: Its options.
            from_json: The options are from a JSON document. Lists become tuples or sets there, and
                texts become enums, paths or durations, as the model of the options says.

        Raises:
            GCPluginError: It is not installed, or can't be used.
            GCConfigError: An option is unknown or has an invalid value.
        """
        plugin, info = self._choose(name)
        options = dict(config or {})
        try:
            strategy = info.factory()
            missing = _missing_members(strategy)
            if not missing:
                if from_json:
                    options = _from_json(info, strategy, options)
                # Our own base class validates its options itself.
                if info.config_model is not None and not isinstance(strategy, GCStrategy):
                    validate_options(info.name, options, info.config_model)
                strategy.initialize(options)
                return strategy
        except GCConfigError:
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            raise GCPluginError(
                f"{plugin.origin} failed to set up {info.name!r}: {type(error).__name__}: {error}"
            ) from error
        raise GCPluginError(f"{plugin.origin}: strategy {info.name!r} lacks {', '.join(missing)}")

    def configure(
        self, options: Mapping[str, Mapping[str, Any]], *, from_json: bool = False
    ) -> None:
        """Gives plugins that are not strategies their options. All are validated first.

        Args:
            options: The options, by the name of the plugin or of its distribution.
            from_json: The options are from a JSON document: see `create`.

        Raises:
            GCConfigError: A plugin is not installed, broken, or takes no options; or an option is
                unknown or has an invalid value.
            GCPluginError: A plugin failed.
        """
        hook = "jaato_gc_configure"
        takers = {id(plugin): taker for plugin, taker in self._implementations(hook)}
        candidates = [plugin for plugin in self.plugins() if not plugin.is_factory]
        validated = []
        for name, given in options.items():
            try:
                plugin = find_plugin(name, candidates)
                if plugin is None:
                    continue
                if id(plugin) not in takers:
                    raise GCConfigError(f"{plugin.origin} takes no options")
                validated.append((plugin, read_options(plugin, given, from_json=from_json)))
            except GCConfigError as error:
                raise GCConfigError(f"options for plugin {name!r}: {error}") from error.__cause__
        for plugin, settings in validated:
            try:
                call(takers[id(plugin)], {"options": settings})
            except BaseException as error:
                if not is_failure(error):
                    raise
                cause = f"{type(error).__name__}: {error}"
                raise GCPluginError(f"{plugin.origin} failed in {hook}: {cause}") from error

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
                answer = call(implementation, arguments)
                if isinstance(answer, kind):
                    return answer
                if answer is not None:
                    raise GCPluginError(f"expected a {kind.__name__}, got {answer!r:.80}")
            except StashError:
                raise
            except Exception as error:
                plugin.fail(error)
        return None

    def hooks(self) -> dict[str, tuple[str, ...]]:
        """Returns the hooks of this version of core, each with its arguments."""
        callers = vars(self._manager.hook).values()
        return {each.name: tuple(each.spec.argnames) for each in callers if each.spec}

    def is_observed(self, hook: str) -> bool:
        """Returns whether any plugin implements a hook."""
        self._load_installed()
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls every observer of a hook. Errors are logged and do not stop the others."""
        for plugin, implementation in self._implementations(hook):
            try:
                call(implementation, arguments)
            except BaseException as error:
                if not is_failure(error):
                    raise
                logger.exception("%s failed in %s; nothing else is affected", plugin.origin, hook)

    def _implementations(self, hook: str) -> Iterator[tuple[InstalledPlugin, pluggy.HookImpl]]:
        self._load_installed()
        # Pluggy lists them in reverse calling order.
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            yield self._plugins[implementation.plugin_name], implementation

    def _load(self, found: PluginEntryPoint) -> None:
        entry_point, record = found.entry_point, found.record()
        key = self._list(record)
        self._shadow_factories()  # before the import, which takes long and may fail
        if record.status is not PluginStatus.OK:
            return
        try:
            loaded = entry_point.load()
            if record.is_factory:
                record.strategies = [StrategyInfo(entry_point.name, loaded)]
            else:
                self._admit(loaded, record, key)
        except (Exception, SystemExit) as error:  # an import may raise anything
            record.fail(error)

    def _list(self, record: InstalledPlugin) -> str:
        # Numbered, because two distributions may use the same name.
        key = f"{record.name}#{len(self._plugins)}"
        self._plugins[key] = record
        return key

    def _shadow_factories(self) -> None:
        plugins = self._plugins.values()
        for factory in plugins:
            if factory.is_factory and factory.status is PluginStatus.OK:
                for plugin in plugins:
                    if not plugin.is_factory:
                        plugin.shadow(factory)

    def _admit(self, plugin: object, record: InstalledPlugin, key: str) -> None:
        """Registers the hook implementations of a plugin, all or none."""
        try:
            self._manager.register(plugin, name=key)
            self._manager.check_pending()
            for caller in self._manager.get_hookcallers(plugin) or ():
                for implementation in caller.get_hookimpls():
                    if implementation.plugin is plugin:
                        check_implementation(implementation, caller)
                        _read(implementation, caller.name, record)
        except BaseException:
            # By name: the same object may be registered under another one.
            if self._manager.has_plugin(key):
                self._manager.unregister(name=key)
            raise

    def _offers(
        self, infos_of: Callable[[InstalledPlugin], list[InfoT]]
    ) -> dict[str, list[tuple[InstalledPlugin, InfoT]]]:
        """Returns what usable plugins offer, by name."""
        offers: dict[str, list[tuple[InstalledPlugin, InfoT]]] = {}
        for plugin in self.plugins():
            if plugin.status is PluginStatus.OK:
                for info in infos_of(plugin):
                    offers.setdefault(info.name, []).append((plugin, info))
        return offers

    def _choose(self, name: str) -> tuple[InstalledPlugin, StrategyInfo]:
        offers = self._offers(lambda plugin: plugin.strategies)
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
        states = (PluginStatus.BROKEN, PluginStatus.BLOCKED)
        unusable = [plugin for plugin in self.plugins() if plugin.status in states]
        for plugin in unusable:
            names = {plugin.name, *(info.name for info in plugin.strategies)}
            if names.intersection(_spellings(name)):
                state = f"{plugin.origin} is {plugin.status}: {plugin.cause}"
                return f"strategy {name!r} can't be used: {state}"
        short = name.removeprefix("gc_")
        if short in OWN_STRATEGIES:
            return f"strategy {name!r} is not installed: pip install jaato-gc-{short}"
        known = [*sorted(offers), *OWN_STRATEGIES]
        near = closest(name, known) or closest(f"gc_{name}", known)
        hint = f"did you mean {near!r}? " if near else ""
        others = "".join(f"; {plugin.origin} is {plugin.status}" for plugin in unusable)
        return (
            f"unknown strategy {name!r}: {hint}"
            f"installed strategies are {', '.join(sorted(offers)) or 'none'}{others}"
        )


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


def _unambiguous(
    offers: Mapping[str, list[tuple[InstalledPlugin, InfoT]]],
) -> dict[str, InfoT]:
    return {name: offers[name][0][1] for name in sorted(offers) if len(offers[name]) == 1}


def _from_json(info: StrategyInfo, strategy: GCPlugin, options: dict[str, Any]) -> dict[str, Any]:
    """Returns options from a JSON document as the strategy's model has them."""
    model = strategy.settings_model if isinstance(strategy, GCStrategy) else info.config_model
    return options if model is None else options_from_json(info.name, options, model)


def _missing_members(strategy: GCPlugin) -> list[str]:
    members = ("name", "initialize", "shutdown", "should_collect", "collect")
    missing = [member for member in members if not hasattr(strategy, member)]
    if isinstance(strategy, GCStrategy):
        kind = type(strategy)
        if kind.select is GCStrategy.select and kind.collect is GCStrategy.collect:
            missing.append("select")
    return missing


def _read(implementation: pluggy.HookImpl, hook: str, record: InstalledPlugin) -> None:
    """Lists what an implementation announces."""
    if hook == "jaato_gc_register_strategies":
        record.strategies += announced(implementation, hook, StrategyInfo)
    elif hook == "jaato_gc_register_formats":
        record.formats += announced(implementation, hook, FormatInfo)
    elif hook == "jaato_gc_register_options":
        record.options_model = announced_model(implementation, hook)
