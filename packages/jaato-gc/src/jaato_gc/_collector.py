"""Asking a strategy for a plan, and believing none of it unseen."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import is_
from typing import Any

from jaato_gc._base_strategy import GCStrategy
from jaato_gc._budget import InstructionBudget
from jaato_gc._change import Change
from jaato_gc._config import GCConfig, ResolvedGCConfig
from jaato_gc._examiner import (
    NonsenseError,
    completed,
    put_back,
    read_answer,
    removal_list_of,
    violations,
    with_message_ids,
)
from jaato_gc._journal import GCPlan
from jaato_gc._messages import Message
from jaato_gc._policies import GCPolicy
from jaato_gc._protection import policies_of, protect
from jaato_gc._results import GCOutcome, GCResult, GCTriggerReason
from jaato_gc._strategy import GCPlugin
from jaato_gc._triggers import ContextUsage, goal_of, should_collect
from jaato_gc._turns import Group, LaidOutHistory, Layout, lay_out, lay_out_more, which_stay
from jaato_gc._workers import DeadlineError, within

logger = logging.getLogger("jaato_gc")


@dataclass(slots=True)
class _Left:
    """What a plan left of a history, its groups, and their policies after so many rebookings."""

    history: list[Message]
    groups: list[Group]
    policies: list[GCPolicy]
    rebookings: int

    def begins(self, history: list[Message], length: int) -> bool:
        """Whether so many messages at the beginning of a history are these."""
        return len(self.history) == length and all(map(is_, self.history, history))


@dataclass(slots=True)
class Collector:
    """A chosen strategy with its effective configuration.

    Args:
        plugin: The strategy.
        config: The session's configuration, merged with the strategy's own options.
        deadline_seconds: How long a collection may take; ``None``: as long as it likes.
        disabled: Why it is not asked any more, if it is not.
    """

    plugin: GCPlugin
    config: ResolvedGCConfig
    deadline_seconds: float | None = None
    disabled: str | None = None
    _known: list["_Left"] = field(default_factory=list, init=False, repr=False)
    """What the last plan would leave, while nobody uses it."""
    takes_budget: bool = field(init=False)
    asks_core: bool = field(init=False)

    def __post_init__(self) -> None:
        self.takes_budget = _accepts(self.plugin.collect, "budget")
        # Core's own check needs figures only, so the session can answer it without asking.
        asked = getattr(type(self.plugin), "should_collect", None)
        self.asks_core = asked is GCStrategy.should_collect

    def should_collect(self, usage: ContextUsage) -> tuple[bool, GCTriggerReason | None]:
        """The strategy's word on whether a collection is due; core's if it has none."""
        try:
            due, reason = self.plugin.should_collect(usage, self.config)
            return (True, reason and GCTriggerReason(reason)) if due else (False, None)
        except Exception:
            logger.exception("%s failed in should_collect; core decides", self.plugin.name)
            return should_collect(usage, self.config)

    def plan(
        self,
        history: Sequence[Message],
        usage: ContextUsage,
        reason: GCTriggerReason,
        budget: InstructionBudget,
        gc_id: str,
        overrides: Mapping[str, Any],
        carrying: bytes | None = None,
    ) -> GCPlan:
        """Work out a collection. Whatever the strategy does, there is a plan, and a safe one.

        Args:
            history: What is to be collected.
            usage: How full the window is.
            reason: Why.
            budget: What the messages are booked in.
            gc_id: What the journal will know it by.
            overrides: What holds instead of the configuration.
            carrying: For each message since the last collection, whether it carries the results of
                the calls before it, if they are in such plain order.
        """
        before = list(history)
        if self.disabled:
            return self._refused(before, reason, budget, gc_id, GCOutcome.FAILED, self.disabled)
        layout, policies = self._lay_out(before, budget, carrying)
        # Pins are message ids in the budget. A strategy that knows no budget gets them as turns.
        pins = set() if self.takes_budget else _pinned_turns(layout, budget.pinned_message_ids)
        pins.update(overrides.get("pinned_turn_indices", ()))
        update = {**overrides, "pinned_turn_indices": sorted(pins)}
        config = self.config.model_copy(update=update)
        protect(layout, config, budget, policies)
        # Noted now: the strategy gets the layout, too, and may do with it as it likes.
        held = {
            message.message_id: (message, group.hold)
            for group in layout.groups
            if group.hold
            for message in group.messages
        }
        goal = goal_of(reason, usage, config, budget, before, len(layout.turns))
        try:
            given = LaidOutHistory(before, layout)
            after, result = read_answer(self._ask(given, usage, config, reason, budget))
            result = replace(result, plugin_name=self.plugin.name, trigger_reason=reason)
            if not self.takes_budget:
                after = put_back(before, after, set(held))
                result = replace(result, removal_list=[])
            if not result.removal_list:
                result = replace(result, removal_list=removal_list_of(after, layout, budget))
            result = with_message_ids(result, after, layout, budget)
            change = Change.between(before, after)
            found = (
                violations(before, after, change, result, held, budget) if result.success else []
            )
            if not found and result.success:
                self._remember(after, change, layout, policies, budget)
        except NonsenseError as error:
            return self._refused(before, reason, budget, gc_id, GCOutcome.REJECTED, str(error))
        except DeadlineError as error:
            self.disabled = f"collect took {error} and is not asked any more"
            return self._refused(before, reason, budget, gc_id, GCOutcome.FAILED, self.disabled)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            return self._refused(before, reason, budget, gc_id, GCOutcome.FAILED, cause)
        if found:
            return self._refused(before, reason, budget, gc_id, GCOutcome.REJECTED, str(found[0]))
        if not result.success:
            after, change, result = before, Change(), replace(result, removal_list=[])
        result = completed(result, before, after, change, budget, goal, gc_id)
        return GCPlan(gc_id, before, after, result, change)

    def _lay_out(
        self, history: list[Message], budget: InstructionBudget, carrying: bytes | None
    ) -> tuple[Layout, list[GCPolicy]]:
        """The layout of a history and the policies of its groups.

        What is new is laid out, where the last plan left the rest.
        """
        try:
            left = self._known.pop()
        except IndexError:  # the first plan, or another thread makes one just now
            left = _Left([], [], [], budget.rebookings)
        if carrying is None or not left.begins(history, len(history) - len(carrying)):
            layout = lay_out(history)
            return layout, policies_of(layout.groups, budget)
        layout = lay_out_more(left.groups, history[len(left.history) :], carrying)
        policies = left.policies if left.rebookings == budget.rebookings else []
        return layout, policies + policies_of(layout.groups[len(policies) :], budget)

    def _remember(
        self,
        after: list[Message],
        change: Change,
        layout: Layout,
        policies: list[GCPolicy],
        budget: InstructionBudget,
    ) -> None:
        """Note what a plan would leave, if the next one can begin with that."""
        stay = which_stay(layout.groups, change.gone)
        if stay and change.only_removes and layout.is_settled:
            groups, kept = compress(layout.groups, stay), compress(policies, stay)
            self._known[:] = [_Left(after, list(groups), list(kept), budget.rebookings)]

    def _ask(
        self,
        history: list[Message],
        usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget,
    ) -> Any:
        arguments = (history, usage, config, reason, *((budget,) if self.takes_budget else ()))
        if self.deadline_seconds is None:
            return self.plugin.collect(*arguments)
        return within(self.deadline_seconds, lambda: self.plugin.collect(*arguments))

    def _refused(
        self,
        before: list[Message],
        reason: GCTriggerReason,
        budget: InstructionBudget,
        gc_id: str,
        outcome: GCOutcome,
        cause: str,
    ) -> GCPlan:
        total = budget.total_tokens()
        result = GCResult(
            success=False,
            items_collected=0,
            tokens_before=total,
            tokens_after=total,
            plugin_name=self.plugin.name,
            trigger_reason=reason,
            error=f"{origin_of(self.plugin)}: {cause}",
            outcome=outcome,
            confidence=budget.counter.confidence,
            gc_id=gc_id,
        )
        return GCPlan(gc_id, before, before, result)


def origin_of(plugin: GCPlugin) -> str:
    """A strategy's name with the distribution and version that it comes from."""
    import importlib.metadata  # here, because it takes long to import and only errors need it

    package = type(plugin).__module__.partition(".")[0]
    for distribution in importlib.metadata.packages_distributions().get(package, ()):
        version = importlib.metadata.version(distribution)
        return f"{plugin.name} of {distribution} {version}"
    return f"{plugin.name} of module {type(plugin).__module__}"


def _pinned_turns(layout: Layout, pinned: set[str]) -> set[int]:
    return {
        turn.index
        for turn in layout.turns
        if any(message.message_id in pinned for message in turn.messages)
    }


def _accepts(function: Callable[..., Any], argument: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(each.name == argument or each.kind is each.VAR_POSITIONAL for each in parameters)
