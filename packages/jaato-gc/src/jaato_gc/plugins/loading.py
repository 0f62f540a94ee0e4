"""Loads plugins, validates their hook implementations, and calls them.

Importing every installed plugin takes long, and a program that uses one strategy needs one of them:
it is loaded alone. Pluggy defines the hooks and validates implementations. It does not call them,
because it leaves out arguments with a default.
"""

import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pluggy
from pydantic import BaseModel

from jaato_gc.errors import GCPluginError
from jaato_gc.plugins import hookspecs
from jaato_gc.plugins.discovery import (
    HOST,
    InstalledPlugin,
    PluginEntryPoint,
    PluginStatus,
    installed_entry_points,
)
from jaato_gc.plugins.hookspecs import PROJECT_NAME
from jaato_gc.plugins.protocol import FormatInfo, InfoT, StrategyInfo, SummarizerInfo

Implementations = dict[str, list[pluggy.HookImpl]]
"""The implementations in one plugin, by the name of the hook, in calling order."""

CallingOrder = dict[str, list[tuple[InstalledPlugin, pluggy.HookImpl]]]
"""The implementations in all plugins, by the name of the hook."""


@dataclass(slots=True, eq=False)
class _Listed:
    """A plugin in the list of a loader.

    Args:
        record: What the host sees of it.
        to_load: Its entry point, until it is loaded.
        plugin: The module or object with its hook implementations, if they are valid.
        implementations: Its hook implementations.
    """

    record: InstalledPlugin
    to_load: PluginEntryPoint | None = None
    plugin: object = None
    implementations: Implementations = field(default_factory=dict)


class PluginLoader:
    """Lists the plugins of a registry, and loads the installed ones when they are needed.

    All are listed at the first use. Hooks are called in the order of this list, whichever plugin
    was loaded first.

    Args:
        load_installed: False: only plugins that are given to `register`.
    """

    def __init__(self, *, load_installed: bool) -> None:
        self._listed: list[_Listed] = []
        self._calling_order: CallingOrder = {}
        self._lists_installed = not load_installed
        self._is_loading = False
        self._is_complete = not load_installed
        self._lock = threading.RLock()  # reentrant: a plugin may use the registry as it is loaded

    def register(self, plugin: object, name: str) -> None:
        """Adds a plugin of the host: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations are invalid.
        """
        record = InstalledPlugin(name, HOST, "-")
        with self._lock:
            self._listed.append(listed := _Listed(record))
            try:
                self._admit(plugin, listed)
            except Exception as error:
                record.fail(error)
                raise GCPluginError(f"{record.origin} can't be used: {record.cause}") from error
            finally:
                self._shadow_factories()

    def all_plugins(self) -> list[InstalledPlugin]:
        """Returns every plugin, usable or not, after loading those that are not loaded yet."""
        self._load()
        return self._records()

    def plugins_for(self, strategy: str) -> list[InstalledPlugin]:
        """Returns the plugins that come first for a strategy, and loads no others.

        A factory is none of them: only when all plugins are loaded is it known whether one of them
        shadows it.
        """
        self._load(strategy)
        return [record for record in self._records() if record.comes_first_for(strategy)]

    def implementations(self, hook: str) -> list[tuple[InstalledPlugin, pluggy.HookImpl]]:
        """Returns the implementations of a hook with their plugins, in calling order."""
        self._load()
        return self._calling_order.get(hook, [])

    def _records(self) -> list[InstalledPlugin]:
        with self._lock:
            return [listed.record for listed in self._listed]

    def _load(self, strategy: str | None = None) -> None:
        """Loads the plugins that come first for a strategy, or all."""
        if self._is_complete:
            return
        with self._lock:  # other threads wait until these are loaded
            if self._is_loading:  # by this thread: a plugin that is loaded sees those before it
                return
            try:
                self._is_loading = True
                self._list_installed()
                for listed in self._listed:
                    if strategy is None or listed.record.comes_first_for(strategy):
                        self._load_plugin(listed)
                self._is_complete = strategy is None
            finally:
                self._is_loading = False

    def _list_installed(self) -> None:
        if not self._lists_installed:
            installed = [_Listed(found.record(), found) for found in installed_entry_points()]
            # At once, so that an interrupt leaves all or none.
            self._listed, self._lists_installed = [*self._listed, *installed], True

    def _load_plugin(self, listed: _Listed) -> None:
        record = listed.record
        if record.is_factory:
            self._shadow_factories()  # a shadowed one is not imported
        if listed.to_load and record.status is PluginStatus.OK:
            try:
                loaded = listed.to_load.entry_point.load()
                if record.is_factory:
                    record.strategies = [StrategyInfo(record.name, loaded)]
                else:
                    self._admit(loaded, listed)
            except (Exception, SystemExit) as error:  # an import may raise anything
                record.fail(error)
        listed.to_load = None  # only now: an interrupted import is repeated

    def _shadow_factories(self) -> None:
        records = self._records()
        for factory in records:
            if factory.is_factory and factory.status is PluginStatus.OK:
                for record in records:
                    if not record.is_factory:
                        record.shadow(factory)

    def _admit(self, plugin: object, listed: _Listed) -> None:
        """Lists what a plugin announces, and its hook implementations: all or none."""
        for other in self._listed:
            if other is not listed and other.plugin is plugin:
                raise GCPluginError(f"it is already registered as {other.record.name!r}")
        record = listed.record
        found = _implementations_in(plugin, record.name)
        record.formats = _announced(found, "jaato_gc_register_formats", FormatInfo)
        hook = "jaato_gc_register_summarizers"
        record.summarizers = _announced(found, hook, SummarizerInfo)
        record.options_model = _announced_model(found)
        record.strategies = _announced(found, "jaato_gc_register_strategies", StrategyInfo)
        listed.plugin, listed.implementations = plugin, found
        self._calling_order = _in_calling_order(self._listed)


def new_manager() -> pluggy.PluginManager:
    """Returns a plugin manager that knows the hooks of this version of core, and no plugins."""
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    return manager


def call(implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
    """Calls an implementation with those arguments of the hook that it names.

    Pluggy passes no argument that has a default. Here it gets its value if this version of core has
    the argument, so that one plugin serves cores of different ages.
    """
    parameters = inspect.signature(implementation.function).parameters.values()
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    takes_all = inspect.Parameter.VAR_KEYWORD in kinds.values()
    named = {name: arguments[name] for name in arguments if takes_all or name in kinds}
    by_position = [
        named.pop(name)
        for name, kind in kinds.items()
        if kind is inspect.Parameter.POSITIONAL_ONLY and name in named
    ]
    return implementation.function(*by_position, **named)


def _in_calling_order(plugins: Sequence[_Listed]) -> CallingOrder:
    """Returns all implementations of each hook with their plugins.

    The order is pluggy's: the last in the list first, unless an implementation is marked with
    ``tryfirst`` or ``trylast``.
    """
    order: CallingOrder = {}
    for listed in reversed(plugins):
        for hook, implementations in listed.implementations.items():
            order.setdefault(hook, []).extend((listed.record, found) for found in implementations)
    for found in order.values():
        found.sort(key=lambda pair: pair[1].trylast - pair[1].tryfirst)
    return order


def _implementations_in(plugin: object, name: str) -> Implementations:
    """Returns the hook implementations of a plugin.

    Pluggy validates them. It does not check for wrappers, and for keyword arguments that the hook
    does not have.

    Raises:
        GCPluginError: An implementation could never be called.
        pluggy.PluginValidationError: It does not fit the hook, or there is no such hook.
    """
    manager = new_manager()  # of its own: nothing is left of a plugin that is refused
    manager.register(plugin, name)
    manager.check_pending()
    found = {}
    for hook in manager.get_hookcallers(plugin) or ():
        known = hook.spec.argnames if hook.spec else ()
        for implementation in hook.get_hookimpls():
            if implementation.wrapper or implementation.hookwrapper:
                raise GCPluginError(f"{hook.name} can't be wrapped, only implemented")
            for argument in inspect.signature(implementation.function).parameters.values():
                is_required = argument.default is argument.empty
                is_keyword = argument.kind is argument.KEYWORD_ONLY
                if is_required and is_keyword and argument.name not in known:
                    cause = f"{hook.name} has no argument {argument.name!r}: give it a default"
                    raise GCPluginError(cause)
        found[hook.name] = hook.get_hookimpls()[::-1]  # pluggy calls the last one first
    return found


def _announced(found: Implementations, hook: str, kind: type[InfoT]) -> list[InfoT]:
    """Returns the strategies, formats or summarizers that a plugin announces.

    Raises:
        GCPluginError: It announces something else, or something without a name.
    """
    infos = [info for implementation in found.get(hook, ()) for info in call(implementation, {})]
    for info in infos:
        if not isinstance(info, kind) or not isinstance(info.name, str):
            raise GCPluginError(f"{hook}: expected a {kind.__name__}, got {info!r:.80}")
    return infos


def _announced_model(found: Implementations) -> type[BaseModel] | None:
    """Returns the model of a plugin's own options; ``None`` if it announces none.

    Raises:
        GCPluginError: It announces something else.
    """
    hook, model = "jaato_gc_register_options", None
    for implementation in found.get(hook, ()):
        model = call(implementation, {})
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise GCPluginError(f"{hook}: expected a class of a pydantic model, got {model!r:.80}")
    return model
