"""Planning: running a strategy and turning what it wants into a plan that is safe to apply."""

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jaato_gc.budget import ReadOnlyBudget
from jaato_gc.collecting import (
    CORE,
    Collection,
    ContextUsage,
    GCOutcome,
    GCResult,
    GCTriggerReason,
    Outcome,
    account,
    broken_outcome_rules,
    can_fit,
    conclude,
    failure,
    fits,
    open_collection,
    should_collect,
)
from jaato_gc.config import GCConfig
from jaato_gc.deadline import DeadlineError, is_failure, within
from jaato_gc.errors import GCError, GCPluginError
from jaato_gc.history import Edit, split_into_turns
from jaato_gc.messages import Message
from jaato_gc.plugins import GCPlugin, GCStrategy
from jaato_gc.session.journal import GCPlan
from jaato_gc.session.verification import (
    RejectedAnswerError,
    copies_of,
    plain_details,
    read_answer,
)

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
        all_steps: bool = True,
    ) -> GCPlan:
        """Returns a plan that is safe to apply, even if the strategy fails.

        Args:
            history: The history to collect.
            usage: How full the window is.
            reason: Why.
            budget: The budget.
            gc_id: The id of the collection.
            config: The configuration of this collection.
            all_steps: Whether core may remove recent content if the request would not fit.
        """
        plugin = self.plugin
        notice = plugin.settings.notice_template if isinstance(plugin, GCStrategy) else None
        given = (history, usage, config, reason, budget)
        collection = open_collection(self.name, notice, *given, all_steps=all_steps)
        if not can_fit(collection):  # what is fixed alone is too much: the strategy can't help
            collection.close()
            _, result = account(collection, [], self.name, {"fits": False})
            result.gc_id = gc_id
            return GCPlan(gc_id, history, (), result)
        edits: Sequence[Edit] = ()
        try:
            notification = self._run(collection, usage)
            outcome, result = _concluded(
                collection, self.name, notice, all_steps=all_steps, notification=notification
            )
            edits = outcome.edits
        except RejectedAnswerError as error:
            result = self._unchanged(collection, GCOutcome.REJECTED, str(error))
        except _FailedError as error:
            result = failure(collection, self.name, GCOutcome.FAILED, str(error))
        except BaseException as error:
            if not is_failure(error):
                raise
            cause = f"{type(error).__name__}: {error}"
            result = self._unchanged(collection, GCOutcome.FAILED, cause)
        finally:
            collection.close()
        if not result.success and collection.goal.tokens_to_fit:
            # The request must fit, whatever the strategy does.
            alone = open_collection(CORE, None, *given, all_steps=all_steps)
            strategy_error = result.error
            try:
                outcome, result = _concluded(alone, CORE, all_steps=all_steps)
            except RejectedAnswerError:  # a fault of core: the failure of the strategy stands
                logger.exception("core's own plan breaks a rule; nothing is changed")
            else:
                result.details["strategy_error"] = strategy_error
                edits = outcome.edits
        result.gc_id = gc_id
        return GCPlan(gc_id, history, tuple(edits), result)

    def _run(self, collection: Collection, usage: ContextUsage) -> str | None:
        """Runs the strategy on a collection. Returns the notice that it says it added."""
        plugin = self.plugin
        if isinstance(plugin, GCStrategy) and type(plugin).collect is GCStrategy.collect:
            try:
                self._within_deadline("select", lambda: plugin.select(collection))
            except GCError as error:
                raise _FailedError(str(error)) from error
            return None
        given = copies_of(collection.history)
        config = self._config_for_plugin(collection)
        arguments: list[Any] = [list(given), usage, config, collection.reason]
        named: dict[str, Any] = {}
        if "budget" in inspect.signature(plugin.collect).parameters:
            named["budget"] = collection.budget
        elif self.takes_budget:
            arguments.append(collection.budget)
        returned = self._within_deadline("collect", lambda: plugin.collect(*arguments, **named))
        answer = read_answer(returned, collection, given, takes_budget=self.takes_budget)
        if answer.error is not None:
            raise _FailedError(answer.error)
        collection.adopt(answer.changes)
        collection.details.update(answer.details)
        return answer.notification

    def _within_deadline(self, method: str, call: Callable[[], T]) -> T:
        """Calls a method of the strategy. One that takes too long disables the strategy."""
        if self.disabled is None:
            try:
                return within(self.deadline_seconds, call)
            except DeadlineError as error:
                self.disabled = f"{method} took {error}, and the strategy is not called any more"
        raise _FailedError(f"{self._origin}: {self.disabled}")

    def _config_for_plugin(self, collection: Collection) -> GCConfig:
        """Returns the configuration, with pins as turns for a strategy that sees no budget."""
        config, budget = collection.config, collection.budget
        if self.takes_budget or budget is None:
            return config
        indices = set(config.pinned_turn_indices)
        for turn in split_into_turns(collection.history):
            if any(each.message_id in budget.pinned_message_ids for each in turn.messages):
                indices.add(turn.index)
        return config.model_copy(update={"pinned_turn_indices": tuple(sorted(indices))})

    def _unchanged(self, collection: Collection, outcome: GCOutcome, cause: str) -> GCResult:
        return failure(collection, self.name, outcome, f"{self._origin}: {cause}")

    @property
    def _origin(self) -> str:
        """The name of the strategy with its distribution and version."""
        return f"{self.name} of {_distribution_of(type(self.plugin).__module__)}"


def _concluded(
    collection: Collection,
    plugin_name: str,
    notice: str | None = None,
    *,
    all_steps: bool,
    notification: str | None = None,
) -> tuple[Outcome, GCResult]:
    """Returns the outcome of a collection, after all rules were checked."""
    if not fits(collection):  # core adds edits, which must not hide what the strategy broke
        _check(Outcome.of(collection, collection.changes))
    outcome, result = conclude(
        collection, plugin_name, notice, all_steps=all_steps, notification=notification
    )
    _check(outcome)
    result.details = plain_details(result.details)
    return outcome, result


def _check(outcome: Outcome) -> None:
    if violations := broken_outcome_rules(outcome):
        raise RejectedAnswerError(str(violations[0]))


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
