"""Scheduling: when a session collects by itself."""

from dataclasses import dataclass

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    Limits,
    crossed_threshold,
)
from jaato_gc.config import GCConfig
from jaato_gc.policies import InstructionSource
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.planning import Planner

MAX_FRUITLESS = 2
"""Automatic collections stop after this many in a row without real gain."""
REAL_GAIN = 0.01
"""A collection that misses its goal and frees less than this share of the window has no gain."""


@dataclass(slots=True)
class Breaker:
    """Stops automatic collections after some in a row without real gain.

    A change of the history or of the window allows one more. The first with a gain closes it.

    Args:
        fruitless: The number of collections without gain in a row.
        reason: Why collections are stopped; ``None`` if they are not.
        blocks: Whether the next one is stopped.
    """

    fruitless: int = 0
    reason: str | None = None
    blocks: bool = False

    def record(self, gained: bool, why: str) -> None:
        """Takes an automatic collection into account."""
        if gained:
            self.fruitless, self.reason, self.blocks = 0, None, False
            return
        self.fruitless += 1
        if self.fruitless >= MAX_FRUITLESS:
            self.blocks = True
            self.reason = f"{self.fruitless} collections in a row freed almost nothing: {why}"


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
        self.use(None)

    def use(self, planner: Planner | None) -> None:
        """Uses another strategy, or none."""
        self.planner = planner
        self.config = planner.config if planner else GCConfig()
        """The effective configuration."""
        self.breaker = Breaker()
        self.settle()

    @property
    def paused_because(self) -> str | None:
        """Why automatic collections are off, if they are."""
        if self.planner and self.planner.disabled:
            return self.planner.disabled
        return self.breaker.reason if self.breaker.blocks else None

    def history_changed(self) -> None:
        """Allows another automatic collection, because the history changed."""
        self.breaker.blocks = False
        self.waits_for_message = False

    def window_changed(self) -> None:
        """Allows another automatic collection, because the window changed."""
        self.breaker.blocks = False
        self.settle()

    def settle(self) -> None:
        """Works out the limits of the current configuration and window."""
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
        if (
            planner is None
            or planner.disabled
            or self.breaker.blocks
            or self.waits_for_message
            or not planner.config.auto_trigger
        ):
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

    def crosses_threshold(self, tokens: int) -> tuple[float, float] | None:
        """Returns percentage and threshold if reported usage crosses it first in this turn."""
        if self.threshold_told:
            return None
        crossed = crossed_threshold(tokens, self.config, self._live.budget.context_limit)
        if crossed:
            self.threshold_told = self.threshold_crossed = True
        return crossed

    def record(self, result: GCResult) -> None:
        """Learns from the result of an automatic collection."""
        window = self.config.window(self._live.budget.context_limit) or 1
        freed = result.tokens_freed - sum(
            item.tokens_freed
            for item in result.removal_list
            if item.source is InstructionSource.ENRICHMENT  # the next turn adds it again
        )
        reached = result.outcome is GCOutcome.REACHED
        gained = freed > 0 and (reached or freed >= window * REAL_GAIN)
        self.breaker.record(gained, result.error or f"the last outcome was {result.outcome}")
