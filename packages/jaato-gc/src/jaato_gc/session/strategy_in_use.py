"""The strategy of a session: its options, its time limit, and what happens if it fails.

Plugins are code of others: one may raise, hang or return anything. The session goes on, because
every call of a strategy passes through here.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jaato_gc.collecting import (
    ContextUsage,
    Draft,
    Failure,
    GCOutcome,
    GCTriggerReason,
    opened,
    rejection,
    should_collect,
)
from jaato_gc.config import GCConfig
from jaato_gc.deadline import DeadlineError, is_failure, within
from jaato_gc.errors import GCConfigError, GCError, GCPluginError
from jaato_gc.history import split_into_turns
from jaato_gc.plugins import GCPlugin, GCStrategy
from jaato_gc.session.returned_history import FailedError, RejectedError, adopt_answer, copies_of
from jaato_gc.summaries import NO_SUMMARIZER, SummarizerFunction, SummarySettings

logger = logging.getLogger("jaato_gc")

T = TypeVar("T")


def prepare(plugin: GCPlugin, config: GCConfig, summarizer: SummarizerFunction | None) -> GCConfig:
    """Gives a strategy its options and its summarizer, and returns the effective configuration.

    Args:
        plugin: The strategy.
        config: The configuration of the session, with options of the strategy.
        summarizer: The summarizer of the session.

    Raises:
        GCConfigError: An option is unknown, settings contradict each other, or the strategy needs
            a summarizer.
        GCPluginError: A subclass of `GCStrategy` does not call its constructor.
    """
    options = config.plugin_config
    if not isinstance(plugin, GCStrategy):
        return config.with_options(
            {key: options[key] for key in options if key in GCConfig.model_fields}
        )
    if not hasattr(plugin, "options"):
        name = type(plugin).__name__
        raise GCPluginError(f"{name} is not initialized: call super().__init__() in it")
    if not options.keys() <= plugin.options.keys():
        plugin.initialize({**options, **plugin.options})
    settings = plugin.settings
    if isinstance(settings, SummarySettings) and plugin.options.get("summarizer") is None:
        # Its options stay as they were given: another session may have another summarizer.
        settings = settings.served_by(summarizer)
        if plugin.needs_summarizer and not settings.can_summarize:
            raise GCConfigError(f"{plugin.name} needs a summarizer: {NO_SUMMARIZER}")
        plugin.settings = settings
    return config.with_options(plugin.overrides)


@dataclass(slots=True)
class StrategyInUse:
    """A strategy with its effective configuration, as a session calls it.

    Args:
        plugin: The strategy.
        config: The configuration of the session, merged with the options of the strategy.
        deadline_seconds: The time limit of each call of the strategy; ``None``: no limit.
        disabled: Why the strategy is no longer used; ``None`` if it is.

    Raises:
        GCPluginError: The strategy has no usable name, or lacks a method.
    """

    plugin: GCPlugin
    config: GCConfig
    deadline_seconds: float | None = None
    disabled: str | None = None
    name: str = field(init=False)
    """The name of the strategy. It is read once, because a property may fail later."""
    takes_budget: bool = field(init=False)
    uses_core_trigger: bool = field(init=False)
    """Whether core decides when to collect, because the strategy does not override it."""

    def __post_init__(self) -> None:
        self.name = _name_of(self.plugin)
        parameters = inspect.signature(self.plugin.collect).parameters.values()
        self.takes_budget = any(
            parameter.name == "budget" or parameter.kind is parameter.VAR_POSITIONAL
            for parameter in parameters
        )
        method = getattr(type(self.plugin), "should_collect", None)
        self.uses_core_trigger = method is GCStrategy.should_collect

    def should_collect(self, usage: ContextUsage) -> tuple[bool, GCTriggerReason | None]:
        """Returns whether the strategy wants to collect, and why. If it fails, core decides."""
        try:
            due, reason = self._within_deadline(
                "should_collect", lambda: self.plugin.should_collect(usage, self.config)
            )
            return (True, reason and GCTriggerReason(reason)) if due else (False, None)
        except FailedError as error:
            logger.warning("%s", error)
            return False, None
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("%s failed in should_collect; core decides", self.name)
            return should_collect(usage, self.config)

    @property
    def notice(self) -> str | None:
        """The template of its notice for the model; ``None``: it gives none."""
        plugin = self.plugin
        return plugin.settings.notice_template if isinstance(plugin, GCStrategy) else None

    def ask(self, draft: Draft) -> Failure | None:
        """Runs the strategy on a draft. Returns why that failed, or ``None``."""
        plugin = self.plugin
        try:
            if isinstance(plugin, GCStrategy) and type(plugin).collect is GCStrategy.collect:
                self._select(plugin, draft)
            else:
                self._collect(draft)
        except RejectedError as error:
            return rejection(draft, str(error))
        except FailedError as error:
            return Failure(GCOutcome.FAILED, str(error))
        except BaseException as error:
            if not is_failure(error):
                raise
            cause = f"{type(error).__name__}: {error}"
            return Failure(GCOutcome.FAILED, f"{self.describe()}: {cause}")
        return None

    def _select(self, plugin: GCStrategy[Any], draft: Draft) -> None:
        with opened(draft) as collection:
            try:
                self._within_deadline("select", lambda: plugin.select(collection))
            except GCError as error:
                raise FailedError(str(error)) from error

    def _collect(self, draft: Draft) -> None:
        """Runs a plugin that returns a history. It works on copies, so it can't change ours."""
        plugin, given = self.plugin, copies_of(draft.history)
        config = self._config_for_plugin(draft)
        arguments: list[Any] = [list(given), draft.request.usage, config, draft.reason]
        named: dict[str, Any] = {}
        if "budget" in inspect.signature(plugin.collect).parameters:
            named["budget"] = draft.budget
        elif self.takes_budget:
            arguments.append(draft.budget)
        returned = self._within_deadline("collect", lambda: plugin.collect(*arguments, **named))
        adopt_answer(returned, draft, given, takes_budget=self.takes_budget)

    def _within_deadline(self, method: str, call: Callable[[], T]) -> T:
        """Calls a method of the strategy. One that takes too long disables the strategy."""
        if self.disabled is None:
            try:
                return within(self.deadline_seconds, call)
            except DeadlineError as error:
                self.disabled = f"{method} took {error}, and the strategy is not called any more"
        raise FailedError(f"{self.describe()}: {self.disabled}")

    def _config_for_plugin(self, draft: Draft) -> GCConfig:
        """Returns the configuration for ``collect``.

        A strategy that takes no budget can't see which messages are pinned, so it gets the numbers
        of their turns.
        """
        config, budget = draft.config, draft.budget
        if self.takes_budget or budget is None:
            return config
        indices = set(config.pinned_turn_indices)
        for turn in split_into_turns(draft.history):
            if any(message.message_id in budget.pinned_message_ids for message in turn.messages):
                indices.add(turn.index)
        return config.model_copy(update={"pinned_turn_indices": tuple(sorted(indices))})

    def describe(self) -> str:
        """Returns the name of the strategy with its distribution and version."""
        return f"{self.name} of {_distribution_of(type(self.plugin).__module__)}"


def _name_of(plugin: GCPlugin) -> str:
    """Returns the name of a strategy, or raises an error if it can't be used."""
    if isinstance(plugin, type):
        raise GCPluginError(f"expected a strategy, got the class {plugin.__name__}: call it")
    if not callable(getattr(plugin, "collect", None)):
        kind = type(plugin).__name__
        raise GCPluginError(f"expected a strategy or the name of one, got {kind} {plugin!r:.80}")
    try:
        name = plugin.name
    except BaseException as error:
        if not is_failure(error):
            raise
        cause = f"its name can't be read: {type(error).__name__}: {error}"
        raise _unusable(plugin, cause) from error
    if not isinstance(name, str) or not name:
        raise _unusable(plugin, f"expected a string as its name, got {name!r:.80}")
    for method in ("should_collect", "shutdown"):
        if not callable(getattr(plugin, method, None)):
            raise _unusable(plugin, f"it has no method {method!r}")
    return name


def _unusable(plugin: GCPlugin, cause: str) -> GCPluginError:
    return GCPluginError(f"{type(plugin).__name__} can't be used: {cause}")


@functools.cache  # looking through all distributions takes a tenth of a second
def _distribution_of(module: str) -> str:
    import importlib.metadata  # here, because it takes long to import and only errors need it

    package = module.partition(".")[0]
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        return f"{distribution} {importlib.metadata.version(distribution)}"
    return f"module {module}"
