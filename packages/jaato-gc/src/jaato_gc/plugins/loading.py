"""Loads plugins: all of them, or only those with the name of a strategy.

Importing every installed plugin takes long, and a program that uses one strategy needs one of them.
"""

import threading
from collections.abc import Iterator

import pluggy

from jaato_gc.errors import GCPluginError
from jaato_gc.plugins import hookspecs
from jaato_gc.plugins.discovery import (
    HOST,
    InstalledPlugin,
    PluginEntryPoint,
    PluginStatus,
    installed_entry_points,
)
from jaato_gc.plugins.hook_calls import announced, announced_model, check_implementation
from jaato_gc.plugins.hookspecs import PROJECT_NAME
from jaato_gc.plugins.protocol import FormatInfo, StrategyInfo


class PluginLoader:
    """Lists the plugins of a registry, and loads the installed ones when they are needed.

    All are listed at the first use. Hooks are called in the order of this list, whichever plugin
    was loaded first.

    Args:
        load_installed: False: only plugins that are given to `register`.
    """

    def __init__(self, *, load_installed: bool) -> None:
        self.manager = _new_manager()
        self._plugins: dict[str, InstalledPlugin] = {}
        self._to_load: dict[str, PluginEntryPoint] | None = None if load_installed else {}
        """Installed plugins that are not loaded yet; ``None``: not looked for yet."""
        self._is_complete = not load_installed
        self._is_loading = False
        self._lock = threading.RLock()  # reentrant: a plugin may use the registry as it is loaded

    def register(self, plugin: object, name: str) -> None:
        """Adds a plugin of the host: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations are invalid.
        """
        record = InstalledPlugin(name, HOST, "-")
        with self._lock:
            key = _new_key(record, self._plugins)
            self._plugins[key] = record
            try:
                self._admit(plugin, key)
            except Exception as error:
                record.fail(error)
                raise GCPluginError(f"{record.origin} can't be used: {record.cause}") from error
            finally:
                self._shadow_factories()

    def all_plugins(self) -> list[InstalledPlugin]:
        """Returns every plugin, usable or not, after loading those that are not loaded yet."""
        self._load_all()
        return self._listed()

    def plugins_for(self, strategy: str) -> list[InstalledPlugin]:
        """Returns the plugins that come first for a strategy, and loads no others.

        A factory is none of them: only when all plugins are loaded is it known whether one of them
        shadows it.
        """
        if not self._is_complete:
            self._load(strategy)
        return [plugin for plugin in self._listed() if plugin.comes_first_for(strategy)]

    def implementations(self, hook: str) -> Iterator[tuple[InstalledPlugin, pluggy.HookImpl]]:
        """Yields the implementations of a hook with their plugins, in calling order."""
        self._load_all()
        # Pluggy lists them in reverse calling order.
        for implementation in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            yield self._plugins[implementation.plugin_name], implementation

    def _load_all(self) -> None:
        if self._is_complete:
            return
        with self._lock:  # other threads wait until all are loaded
            self._load()
            if not self._to_load:
                self._register_in_order()
                self._is_complete = True

    def _listed(self) -> list[InstalledPlugin]:
        with self._lock:
            return list(self._plugins.values())

    def _load(self, strategy: str | None = None) -> None:
        """Loads the plugins that come first for a strategy, or all."""
        with self._lock:
            if self._is_loading:  # by this thread: a plugin that is loaded sees those before it
                return
            try:
                self._is_loading = True
                to_load = self._list_installed() if self._to_load is None else self._to_load
                for key, found in list(to_load.items()):
                    if strategy is None or self._plugins[key].comes_first_for(strategy):
                        self._load_plugin(found, key)
                        del to_load[key]  # only now: an interrupted import is repeated
            finally:
                self._is_loading = False

    def _list_installed(self) -> dict[str, PluginEntryPoint]:
        plugins, to_load = dict(self._plugins), {}
        for found in installed_entry_points():
            record = found.record()
            key = _new_key(record, plugins)
            plugins[key], to_load[key] = record, found
        self._plugins, self._to_load = plugins, to_load
        return to_load

    def _load_plugin(self, found: PluginEntryPoint, key: str) -> None:
        record = self._plugins[key]
        self._shadow_factories()  # a shadowed factory is not imported
        if record.status is not PluginStatus.OK:
            return
        try:
            loaded = found.entry_point.load()
            if record.is_factory:
                record.strategies = [StrategyInfo(record.name, loaded)]
            else:
                self._admit(loaded, key)
        except (Exception, SystemExit) as error:  # an import may raise anything
            record.fail(error)

    def _shadow_factories(self) -> None:
        plugins = self._plugins.values()
        for factory in plugins:
            if factory.is_factory and factory.status is PluginStatus.OK:
                for plugin in plugins:
                    if not plugin.is_factory:
                        plugin.shadow(factory)

    def _admit(self, plugin: object, key: str) -> None:
        """Registers the hook implementations of a plugin, all or none."""
        record = self._plugins[key]
        record.strategies, record.formats = [], []
        self._withdraw(key)  # left from an interrupted loading
        try:
            self.manager.register(plugin, name=key)
            self.manager.check_pending()
            for caller in self.manager.get_hookcallers(plugin) or ():
                for implementation in caller.get_hookimpls():
                    if implementation.plugin is plugin:
                        check_implementation(implementation, caller)
                        _read(implementation, caller.name, record)
        except BaseException:
            self._withdraw(key)
            raise

    def _withdraw(self, key: str) -> None:
        # By name: the same object may be registered under another one.
        if self.manager.has_plugin(key):
            self.manager.unregister(name=key)

    def _register_in_order(self) -> None:
        """Registers the plugins in the order of the list, if some were loaded before their turn."""
        registered = dict(self.manager.list_name_plugin())
        in_order = [key for key in self._plugins if key in registered]
        if in_order == [*registered]:
            return
        manager = _new_manager()
        for key in in_order:
            manager.register(registered[key], name=key)
        self.manager = manager


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    return manager


def _new_key(record: InstalledPlugin, plugins: dict[str, InstalledPlugin]) -> str:
    # Numbered, because two distributions may use the same name.
    return f"{record.name}#{len(plugins)}"


def _read(implementation: pluggy.HookImpl, hook: str, record: InstalledPlugin) -> None:
    """Lists what an implementation announces."""
    if hook == "jaato_gc_register_strategies":
        record.strategies += announced(implementation, hook, StrategyInfo)
    elif hook == "jaato_gc_register_formats":
        record.formats += announced(implementation, hook, FormatInfo)
    elif hook == "jaato_gc_register_options":
        record.options_model = announced_model(implementation, hook)
