"""Running a strategy: with a deadline, and without believing what it does."""

import functools
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jaato_gc.budget import ReadOnlyBudget
from jaato_gc.collecting import (
    ContextUsage,
    Draft,
    Failure,
    GCOutcome,
    GCPlan,
    GCTriggerReason,
    PlanRequest,
    make_plan,
    opened,
    rejection,
    should_collect,
)
from jaato_gc.config import GCConfig
from jaato_gc.deadline import DeadlineError, is_failure, within
from jaato_gc.errors import GCError, GCPluginError
from jaato_gc.history import split_into_turns
from jaato_gc.messages import Message
from jaato_gc.plugins import GCPlugin, GCStrategy
from jaato_gc.session.returned_history import RejectedAnswerError, copies_of, read_answer

logger = logging.getLogger("jaato_gc")

T = TypeVar("T")


@dataclass(slots=True)
class Planner:
    """A strategy with its effective configuration.

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
            each.name == "budget" or each.kind is each.VAR_POSITIONAL for each in parameters
        )
        asked = getattr(type(self.plugin), "should_collect", None)
        self.uses_core_trigger = asked is GCStrategy.should_collect

    def should_collect(self, usage: ContextUsage) -> tuple[bool, GCTriggerReason | None]:
        """Returns whether the strategy wants to collect, and why. If it fails, core decides."""
        try:
            due, reason = self._within_deadline(
                "should_collect", lambda: self.plugin.should_collect(usage, self.config)
            )
            return (True, reason and GCTriggerReason(reason)) if due else (False, None)
        except _FailedError as error:
            logger.warning("%s", error)
            return False, None
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("%s failed in should_collect; core decides", self.name)
            return should_collect(usage, self.config)

    def plan(
        self,
        history: tuple[Message, ...],
        usage: ContextUsage,
        reason: GCTriggerReason,
        budget: ReadOnlyBudget,
        gc_id: str,
        config: GCConfig,
        *,
        may_relax: bool = True,
    ) -> GCPlan:
        """Returns a plan that is safe to apply, even if the strategy fails.

        Args:
            history: The history to collect.
            usage: How full the window is.
            reason: Why.
            budget: The budget.
            gc_id: The id of the collection.
            config: The configuration of this collection.
            may_relax: Whether core may remove recent content if the request would not fit.
        """
        plugin = self.plugin
        notice = plugin.settings.notice_template if isinstance(plugin, GCStrategy) else None
        request = PlanRequest(
            self.name,
            history,
            usage,
            config,
            reason,
            budget,
            notice,
            may_relax=may_relax,
            must_fit=True,
            gc_id=gc_id,
            describe=self._describe,
        )
        plan = make_plan(request, self._ask)
        return replace(plan, result=plan.result.frozen())

    def _ask(self, draft: Draft) -> Failure | None:
        """Runs the strategy on a draft. Returns why that failed, or ``None``."""
        plugin = self.plugin
        try:
            if isinstance(plugin, GCStrategy) and type(plugin).collect is GCStrategy.collect:
                self._select(plugin, draft)
            else:
                self._collect(draft)
        except RejectedAnswerError as error:
            return rejection(draft, str(error))
        except _FailedError as error:
            return Failure(GCOutcome.FAILED, str(error))
        except BaseException as error:
            if not is_failure(error):
                raise
            cause = f"{type(error).__name__}: {error}"
            return Failure(GCOutcome.FAILED, f"{self._describe()}: {cause}")
        return None

    def _select(self, plugin: GCStrategy[Any], draft: Draft) -> None:
        with opened(draft) as collection:
            try:
                self._within_deadline("select", lambda: plugin.select(collection))
            except GCError as error:
                raise _FailedError(str(error)) from error

    def _collect(self, draft: Draft) -> None:
        """Runs a plugin that returns a history: on copies, and its answer becomes edits."""
        plugin, given = self.plugin, copies_of(draft.history)
        config = self._config_for_plugin(draft)
        arguments: list[Any] = [list(given), draft.request.usage, config, draft.reason]
        named: dict[str, Any] = {}
        if "budget" in inspect.signature(plugin.collect).parameters:
            named["budget"] = draft.budget
        elif self.takes_budget:
            arguments.append(draft.budget)
        returned = self._within_deadline("collect", lambda: plugin.collect(*arguments, **named))
        answer = read_answer(returned, draft, given, takes_budget=self.takes_budget)
        if answer.error is not None:
            raise _FailedError(answer.error)
        draft.adopt(answer.changes)
        draft.details.update(answer.details)
        draft.notification = answer.notification

    def _within_deadline(self, method: str, call: Callable[[], T]) -> T:
        """Calls a method of the strategy. One that takes too long disables the strategy."""
        if self.disabled is None:
            try:
                return within(self.deadline_seconds, call)
            except DeadlineError as error:
                self.disabled = f"{method} took {error}, and the strategy is not called any more"
        raise _FailedError(f"{self._describe()}: {self.disabled}")

    def _config_for_plugin(self, draft: Draft) -> GCConfig:
        """Returns the configuration, with pins as turns for a strategy that sees no budget."""
        config, budget = draft.config, draft.budget
        if self.takes_budget or budget is None:
            return config
        indices = set(config.pinned_turn_indices)
        for turn in split_into_turns(draft.history):
            if any(message.message_id in budget.pinned_message_ids for message in turn.messages):
                indices.add(turn.index)
        return config.model_copy(update={"pinned_turn_indices": tuple(sorted(indices))})

    def _describe(self) -> str:
        """Returns the name of the strategy with its distribution and version."""
        return f"{self.name} of {_distribution_of(type(self.plugin).__module__)}"


class _FailedError(Exception):
    """The strategy reported a failure."""


def _name_of(plugin: GCPlugin) -> str:
    """Returns the name of a strategy, or raises an error if it can't be used."""
    try:
        name = plugin.name
    except BaseException as error:
        if not is_failure(error):
            raise
        cause = f"its name can't be read: {type(error).__name__}: {error}"
        raise _unusable(plugin, cause) from error
    if not isinstance(name, str) or not name:
        raise _unusable(plugin, f"expected a string as its name, got {name!r:.80}")
    for method in ("should_collect", "collect", "shutdown"):
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
