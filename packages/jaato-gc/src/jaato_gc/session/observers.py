"""Notifying the host and observer plugins. Their errors never break a turn."""

import logging
from collections.abc import Callable
from typing import Any

from jaato_gc.collecting import GCResult
from jaato_gc.commit import guarded
from jaato_gc.deadline import is_failure
from jaato_gc.plugins import PluginRegistry
from jaato_gc.session.live_history import LiveHistory

logger = logging.getLogger("jaato_gc")

BudgetListener = Callable[[dict[str, Any]], None]
"""Called with a snapshot of the budget."""

ThresholdCallback = Callable[[float, float], None]
"""Called with the percentage in use and the threshold that it crossed."""


class Observers:
    """The callbacks of the host, and the plugins that implement observer hooks.

    Args:
        live: The history and its budget.
        registry: The registry of plugins.
        on_budget: The host's callback for changes of the budget.
        ui_hooks: An object with a method for the same, which also gets the agent's id.
    """

    def __init__(
        self,
        live: LiveHistory,
        registry: PluginRegistry,
        on_budget: BudgetListener | None,
        ui_hooks: Any,
    ) -> None:
        self._live = live
        self._guard = live.guard
        self._registry = registry
        self._on_budget = on_budget
        self._show = getattr(ui_hooks, "on_agent_instruction_budget_updated", None)
        self._has_ended = False

    def ended(self) -> None:
        """Notifies that the session is closed, if it was not before."""
        if self._end():
            self.notify("jaato_gc_session_ended")

    @guarded
    def _end(self) -> bool:
        is_first, self._has_ended = not self._has_ended, True
        return is_first

    def call(self, observer: Callable[..., Any] | None, *arguments: Any) -> None:
        """Calls an observer, if there is one. Errors are logged."""
        if observer is None:
            return
        try:
            observer(*arguments)
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("an observer failed; the turn goes on")

    def notify(self, hook: str, **arguments: Any) -> None:
        """Calls the plugins that implement a hook, with the arguments and the session's ids."""
        budget = self._live.budget
        self._registry.notify(
            hook, agent_id=budget.agent_id, session_id=budget.session_id, **arguments
        )

    def notify_of(self, result: GCResult, hook: str, **arguments: Any) -> None:
        """Calls the plugins that implement a hook, with a result and the history after it."""
        self.notify(hook, result=result, history=self._live.snapshot(), **arguments)

    def threshold_crossed(
        self, callback: ThresholdCallback | None, percent_used: float, threshold: float
    ) -> None:
        """Notifies that usage crossed the threshold."""
        self.call(callback, percent_used, threshold)
        self.notify("jaato_gc_threshold_crossed", percent_used=percent_used, threshold=threshold)

    def budget_changed(self) -> None:
        """Notifies that the budget changed."""
        observed = self._registry.is_observed("jaato_gc_budget_updated")
        if not (self._on_budget or self._show or observed):
            return  # the cost of a snapshot grows with the budget
        snapshot = self._live.budget.snapshot()
        self.call(self._on_budget, snapshot)
        self.call(self._show, self._live.budget.agent_id, snapshot)
        self.notify("jaato_gc_budget_updated", snapshot=snapshot)
