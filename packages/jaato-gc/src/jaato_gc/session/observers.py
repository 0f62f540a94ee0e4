"""Notifying the host and observer plugins. Their errors never break a turn."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting import ContextUsage, GCResult, GCTriggerReason
from jaato_gc.messages import Message
from jaato_gc.plugins import PluginRegistry

logger = logging.getLogger("jaato_gc")

BudgetListener = Callable[[dict[str, Any]], None]
"""Called with a snapshot of the budget."""


class Observers:
    """The callbacks of the host, and the plugins that implement observer hooks."""

    def __init__(
        self,
        registry: PluginRegistry,
        on_budget: BudgetListener | None,
        ui_hooks: Any,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.registry = registry
        self.on_budget = on_budget
        self.ui_hooks = ui_hooks
        self._show = getattr(ui_hooks, "on_agent_instruction_budget_updated", None)
        self._lock = lock

    def call(self, observer: Callable[..., Any] | None, *arguments: Any) -> None:
        """Calls an observer, if there is one. Errors are logged."""
        if observer is None:
            return
        try:
            observer(*arguments)
        except Exception:
            logger.exception("an observer failed; the turn goes on")

    def collection_starts(
        self,
        plugin_name: str,
        history: Sequence[Message],
        context_usage: ContextUsage,
        reason: GCTriggerReason,
        agent_id: str,
    ) -> None:
        """Notifies that a collection starts."""
        if self.registry.is_observed("jaato_gc_before_collect"):
            self.registry.notify(
                "jaato_gc_before_collect",
                plugin_name=plugin_name,
                history=tuple(history),
                context_usage=context_usage,
                reason=reason,
                agent_id=agent_id,
            )

    def collection_ended(
        self, result: GCResult, history: Sequence[Message], agent_id: str, seconds: float
    ) -> None:
        """Notifies that a collection ended."""
        if self.registry.is_observed("jaato_gc_after_collect"):
            self.registry.notify(
                "jaato_gc_after_collect",
                result=result,
                history=tuple(history),
                agent_id=agent_id,
                seconds=seconds,
            )

    def threshold_crossed(
        self,
        host: Callable[[float, float], None] | None,
        percent_used: float,
        threshold: float,
        agent_id: str,
    ) -> None:
        """Notifies that usage crossed the threshold while an answer is streaming."""
        self.call(host, percent_used, threshold)
        self.registry.notify(
            "jaato_gc_threshold_crossed",
            percent_used=percent_used,
            threshold=threshold,
            agent_id=agent_id,
        )

    def budget_changed(self, budget: InstructionBudget) -> None:
        """Notifies that the budget changed."""
        observed = self.registry.is_observed("jaato_gc_budget_updated")
        if not (self.on_budget or self._show or observed):
            return  # the cost of a snapshot grows with the budget
        with self._lock:
            snapshot = budget.snapshot()
        self.call(self.on_budget, snapshot)
        self.call(self._show, budget.agent_id, snapshot)
        self.registry.notify("jaato_gc_budget_updated", agent_id=budget.agent_id, snapshot=snapshot)
