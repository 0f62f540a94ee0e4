"""The registry of plugins: strategies, formats, stashes, counters and observers."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jaato_gc.config import GCConfig, validate_options
from jaato_gc.deadline import is_failure
from jaato_gc.errors import GCConfigError, GCPluginError, StashError
from jaato_gc.plugins.base import GCStrategy
from jaato_gc.plugins.discovery import BLOCKED_VARIABLE, InstalledPlugin, PluginStatus
from jaato_gc.plugins.loading import PluginLoader, call, new_manager
from jaato_gc.plugins.plugin_options import find_plugin, read_options
from jaato_gc.plugins.protocol import FormatInfo, GCPlugin, InfoT, StrategyInfo, SummarizerInfo
from jaato_gc.settings import closest, options_from_json
from jaato_gc.stash import Stash
from jaato_gc.tokens import TokenCounter, choose_counter

logger = logging.getLogger("jaato_gc")

OWN_STRATEGIES = ("truncate", "summarize", "hybrid", "budget", "marksweep")
"""Strategies with a distribution ``jaato-gc-<name>`` that an error can suggest."""


class PluginRegistry:
    """The plugins of this environment, loaded on first use. Threads may share a registry.

    A strategy comes from a plugin of the host, or from the plugin with its name, which is loaded
    alone. If none of these offers it, all plugins are loaded. Everything else loads all of them.

    A plugin that can't be loaded never hides the others: it is listed as broken, and choosing it
    raises the cause. A plugin with hooks shadows a factory of the same strategy, so that
    jaato-server can be installed beside the strategies of this project.

    Args:
        load_installed: False: only plugins that are given to `register`.
    """

    def __init__(self, *, load_installed: bool = True) -> None:
        self._loader = PluginLoader(load_installed=load_installed)

    def register(self, plugin: object, name: str) -> None:
        """Adds a plugin of the host: a module or object with hook implementations.

        Raises:
            GCPluginError: Its hook implementations are invalid.
        """
        self._loader.register(plugin, name)

    def plugins(self) -> list[InstalledPlugin]:
        """Returns every installed plugin, usable or not."""
        return self._loader.all_plugins()

    def strategies(self) -> dict[str, StrategyInfo]:
        """Returns the strategies that can be created, by name."""
        offers = _offers(self.plugins(), lambda plugin: plugin.strategies)
        for name, found in offers.items():
            first = [offer for offer in found if offer[0].comes_first_for(name)]
            offers[name] = first or found
        return _unambiguous(offers)

    def formats(self) -> dict[str, FormatInfo]:
        """Returns the formats that only one plugin offers, by name."""
        return _unambiguous(_offers(self.plugins(), lambda plugin: plugin.formats))

    def summarizers(self) -> dict[str, SummarizerInfo]:
        """Returns the summarizers that only one plugin offers, by name."""
        return _unambiguous(_offers(self.plugins(), lambda plugin: plugin.summarizers))

    def info(self, name: str) -> StrategyInfo:
        """Returns how a plugin announces a strategy.

        Args:
            name: Its name, with or without ``gc_``.

        Raises:
            GCPluginError: It is not installed, or can't be used.
        """
        return self._choose(name)[1]

    def strategy(self, strategy: str | GCPlugin | None = None) -> GCPlugin:
        """Returns a strategy that is given as an object, by its name, or not at all.

        Args:
            strategy: The strategy, or its name with or without ``gc_``. ``None``: the one that is
                installed.

        Raises:
            GCPluginError: It is not installed, or can't be used. Without a name: none is installed,
                or several are.
        """
        if strategy is None:
            strategy = self._only_strategy()
        return self.create(strategy) if isinstance(strategy, str) else strategy

    def _only_strategy(self) -> str:
        names = list(self.strategies())
        if len(names) == 1:
            return names[0]
        if names:
            raise GCPluginError(
                f"{len(names)} strategies are installed: choose one with strategy=…, such as "
                f"strategy={names[0]!r} (installed: {', '.join(names)})"
            )
        raise GCPluginError(
            "no usable strategy is installed: pip install one such as jaato-gc-budget, or pass a "
            "strategy as strategy=…"
        )

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
        if not isinstance(name, str):
            raise GCPluginError(f"expected the name of a strategy, got {name!r:.80}")
        if not isinstance(config, Mapping | None):
            kind = type(config).__name__
            hint = "; give it to set_gc_plugin" if isinstance(config, GCConfig) else ""
            raise GCConfigError(f"{name}: expected a dict of options, got {kind}{hint}")
        plugin, info = self._choose(name)
        with _blaming(plugin, f"to set up {info.name!r}", passed_on=GCConfigError):
            strategy = info.factory()
            missing = _missing_members(strategy)
            if not missing:
                strategy.initialize(_options_for(strategy, info, config or {}, from_json))
                return strategy
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
        if not options:
            return  # plugins are loaded only if there is something for them
        hook = "jaato_gc_configure"
        takers = {id(plugin): taker for plugin, taker in self._loader.implementations(hook)}
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
            with _blaming(plugin, f"in {hook}"):
                call(takers[id(plugin)], {"options": settings})

    def token_counter(self, model: str | None = None) -> TokenCounter:
        """Returns the counter for a model: from a plugin, or core's choice."""
        counter = self._first(
            "jaato_gc_token_counter",
            {"model": model},
            "a TokenCounter",
            lambda found: isinstance(found, TokenCounter),
        )
        return counter or choose_counter(model)

    def model_window(self, model: str | None) -> int | None:
        """Returns the window of a model in tokens, if a plugin knows it."""
        if not model:
            return None
        window: int | None = self._first(
            "jaato_gc_model_window",
            {"model": model},
            "a positive integer",
            lambda found: type(found) is int and found > 0,
        )
        return window

    def stash(self, agent_id: str = "main") -> Stash | None:
        """Returns the stash that a plugin provides for an agent, if one does.

        Raises:
            StashError: The plugin can't provide it. Continuing without it would lose content.
        """
        stash: Stash | None = self._first(
            "jaato_gc_stash",
            {"agent_id": agent_id},
            "a Stash",
            lambda found: isinstance(found, Stash),
        )
        return stash

    def _first(
        self,
        hook: str,
        arguments: Mapping[str, Any],
        expected: str,
        is_expected: Callable[[Any], bool],
    ) -> Any:
        """Returns the first result of a hook. A plugin that fails is listed as broken."""
        for plugin, implementation in self._loader.implementations(hook):
            try:
                answer = call(implementation, arguments)
                if is_expected(answer):
                    return answer
                if answer is not None:
                    raise GCPluginError(f"expected {expected}, got {answer!r:.80}")
            except StashError:
                raise
            except BaseException as error:
                if not is_failure(error):
                    raise
                plugin.fail(error)
        return None

    def hooks(self) -> dict[str, tuple[str, ...]]:
        """Returns the hooks of this version of core, each with its arguments."""
        hooks = vars(new_manager().hook).values()
        return {hook.name: tuple(hook.spec.argnames) for hook in hooks if hook.spec}

    def is_observed(self, hook: str) -> bool:
        """Returns whether any plugin implements a hook."""
        return bool(self._loader.implementations(hook))

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls every observer of a hook. Errors are logged and do not stop the others."""
        for plugin, implementation in self._loader.implementations(hook):
            try:
                call(implementation, arguments)
            except BaseException as error:
                if not is_failure(error):
                    raise
                logger.exception("%s failed in %s; nothing else is affected", plugin.origin, hook)

    def _choose(self, name: str) -> tuple[InstalledPlugin, StrategyInfo]:
        found = _find(name, self._loader.plugins_for(name)) or _find(name, self.plugins())
        if not found:
            raise GCPluginError(self._why_missing(name))
        if len(found) > 1:
            raise GCPluginError(
                f"strategy {found[0][1].name!r} is offered by "
                + " and by ".join(plugin.origin for plugin, _ in found)
                + f": uninstall one, or name its distribution in {BLOCKED_VARIABLE}"
            )
        return found[0]

    def _why_missing(self, name: str) -> str:
        offers = _offers(self.plugins(), lambda plugin: plugin.strategies)
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


def _find(
    name: str, plugins: Iterable[InstalledPlugin]
) -> list[tuple[InstalledPlugin, StrategyInfo]]:
    """Returns the plugins that offer a strategy, by the first spelling that any of them offers."""
    offers = _offers(plugins, lambda plugin: plugin.strategies)
    return next((offers[spelling] for spelling in _spellings(name) if spelling in offers), [])


def _offers(
    plugins: Iterable[InstalledPlugin], infos_of: Callable[[InstalledPlugin], list[InfoT]]
) -> dict[str, list[tuple[InstalledPlugin, InfoT]]]:
    """Returns what usable plugins offer, by name."""
    offers: dict[str, list[tuple[InstalledPlugin, InfoT]]] = {}
    for plugin in plugins:
        if plugin.status is PluginStatus.OK:
            for info in infos_of(plugin):
                offers.setdefault(info.name, []).append((plugin, info))
    return offers


def _unambiguous(
    offers: Mapping[str, list[tuple[InstalledPlugin, InfoT]]],
) -> dict[str, InfoT]:
    return {name: offers[name][0][1] for name in sorted(offers) if len(offers[name]) == 1}


@contextmanager
def _blaming(
    plugin: InstalledPlugin, action: str, passed_on: type[Exception] | tuple[()] = ()
) -> Iterator[None]:
    """Turns what a plugin raises into an error that names the plugin."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, passed_on) or not is_failure(error):
            raise
        cause = f"{type(error).__name__}: {error}"
        raise GCPluginError(f"{plugin.origin} failed {action}: {cause}") from error


def _options_for(
    strategy: GCPlugin, info: StrategyInfo, options: Mapping[str, Any], from_json: bool
) -> dict[str, Any]:
    """Returns the options that a strategy is initialized with, validated if there is a model."""
    model = strategy.settings_model if isinstance(strategy, GCStrategy) else info.config_model
    if model is not None and from_json:
        options = options_from_json(info.name, options, model)
    if model is not None and not isinstance(strategy, GCStrategy):  # that validates them itself
        validate_options(info.name, options, model)
    return dict(options)


def _missing_members(strategy: GCPlugin) -> list[str]:
    members = ("name", "initialize", "shutdown", "should_collect", "collect")
    missing = [member for member in members if not hasattr(strategy, member)]
    if isinstance(strategy, GCStrategy):
        kind = type(strategy)
        if kind.select is GCStrategy.select and kind.collect is GCStrategy.collect:
            missing.append("select")
    return missing
