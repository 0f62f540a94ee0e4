"""Scheduling: when a session collects by itself."""

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    Limits,
    crossed_threshold,
    is_cache_cold,
    min_free_tokens,
)
from jaato_gc.config import GCConfig
from jaato_gc.errors import NotConfiguredError, StalePlanError
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.planning import Planner


class Schedule:
    """Decides when a session collects by itself.

    Args:
        live: The history and its budget.
    """

    def __init__(self, live: LiveHistory) -> None:
        self._live = live
        self.waits_for_message = False
        """Set by an undo, whose effect must not be collected again at once."""
        self.threshold_told = False
        """Whether the host was told in this turn that usage crossed the threshold."""
        self.threshold_crossed = False
        """Whether usage crossed the threshold since the last automatic collection."""
        self.requested_at: float | None = None
        """When the last request was made, by the clock of the session."""
        self.waits_until = 0
        """The number of tokens from which on a collection can gain something again."""
        self.planner: Planner | None = None
        """The strategy; ``None``: there is none."""
        self.config = GCConfig()
        """The effective configuration."""
        self.output_reserve = 0
        """The room for the answer, in tokens, if the configuration does not set it."""
        self.settle()

    def use(self, planner: Planner | None) -> Planner | None:
        """Uses another strategy, or none. Returns the previous one."""
        with self._live.lock:
            previous, self.planner = self.planner, planner
            self.config = planner.config if planner else GCConfig()
            self.window_changed()
            return previous

    def strategy(self) -> Planner:
        """Returns the strategy.

        Raises:
            NotConfiguredError: There is none.
        """
        planner = self.planner
        if planner is None:
            raise NotConfiguredError("there is no strategy to collect with: call set_gc_plugin")
        return planner

    def check_in_use(self, planner: Planner | None) -> None:
        """Checks that a strategy was neither removed nor replaced; ``None`` stands for any.

        Raises:
            StalePlanError: It was.
        """
        if planner is not None and planner is not self.planner:
            raise StalePlanError(f"{planner.name} was removed or replaced since: make a new plan")

    def use_window(self, context_limit: int) -> None:
        """Uses another window."""
        with self._live.lock:
            self._live.budget.context_limit = context_limit
            self.window_changed()

    def use_output_reserve(self, tokens: int) -> None:
        """Keeps another room for the answer.

        Unlike another window, it does not end a pause: hosts may change it with every request.
        """
        with self._live.lock:
            self.output_reserve = tokens
            self.settle()

    @property
    def paused_because(self) -> str | None:
        """Why automatic collections are off, if they are."""
        planner = self.planner
        if planner and planner.disabled:
            return planner.disabled
        if self._live.budget.total_tokens() < self.waits_until:
            return (
                "the last collection did not reach its goal: the next one waits until the context "
                f"has {self.waits_until} tokens, or does not fit"
            )
        return None

    def history_changed(self) -> None:
        """Allows another automatic collection, because the history changed."""
        self.waits_for_message = False

    def window_changed(self) -> None:
        """Allows another automatic collection, because the window changed."""
        self.waits_until = 0
        self.settle()

    def settle(self) -> None:
        """Works out the limits of the current configuration, window and output reserve."""
        self.config = self.config.with_output_reserve(self.output_reserve)
        if self.planner:
            self.planner.config = self.config
        limit = self._live.budget.context_limit
        self._limits = Limits.of(self.config, limit)
        self.request_limit = self.config.request_limit(limit) or 0
        """The size of the largest request that may be sent."""

    def due(
        self, unnamed: GCTriggerReason = GCTriggerReason.THRESHOLD, *, after_turn: bool = False
    ) -> GCTriggerReason | None:
        """Returns the reason for an automatic collection now; ``None`` if there is none.

        Args:
            unnamed: The reason if the strategy gives none.
            after_turn: Whether the turn ended: then a threshold that the provider's figures crossed
                is a reason too.
        """
        planner = self.planner
        if planner is None or not self._may_collect(planner):
            return None
        if planner.uses_core_trigger:
            if reason := self._limits.reached(self._live.budget.total_tokens(), self._live.turns):
                return reason
        else:
            is_due, reason = planner.should_collect(self._live.usage())
            if is_due:
                return reason or unnamed
        if after_turn and self.threshold_crossed and not planner.config.continuous_mode:
            return GCTriggerReason.THRESHOLD
        return None

    def is_cache_cold(self, now: float) -> bool:
        """Returns whether the provider's prompt cache expired, and a collection is worth it now."""
        planner, requested_at = self.planner, self.requested_at
        if planner is None or requested_at is None or not self._may_collect(planner):
            return False
        return is_cache_cold(
            planner.config, now - requested_at, self._live.budget.utilization_percent()
        )

    def _may_collect(self, planner: Planner) -> bool:
        """Returns whether automatic collections are allowed at the moment."""
        return (
            not planner.disabled
            and not self.waits_for_message
            and self._live.budget.total_tokens() >= self.waits_until
            and planner.config.auto_trigger
        )

    def crosses_threshold(self, tokens: float) -> tuple[float, float] | None:
        """Returns percentage and threshold if reported usage crosses it first in this turn."""
        with self._live.lock:
            if self.threshold_told:
                return None
            crossed = crossed_threshold(tokens, self.config, self._live.budget.context_limit)
            if crossed:
                self.threshold_told = self.threshold_crossed = True
            return crossed

    def record(self, result: GCResult) -> None:
        """Learns from the result of an automatic collection.

        After one that missed its goal, the next would too: it waits until enough came in.
        """
        if result.outcome in (GCOutcome.REACHED, GCOutcome.NOT_NEEDED):
            self.waits_until = 0
        else:
            window = self._live.budget.context_limit
            total = self._live.budget.total_tokens()
            self.waits_until = total + max(1, min_free_tokens(self.config, window))
