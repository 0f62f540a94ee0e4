"""Decides when a session collects by itself.

A collection makes the provider's prompt cache useless, and one that can't reach its goal would run
before every request. So there are limits, a pause after an undo, and a wait after a failure.
"""

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    Limits,
    is_cache_cold,
)
from jaato_gc.commit import Commit, guarded
from jaato_gc.config import GCConfig
from jaato_gc.errors import NotConfiguredError, StalePlanError
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.strategy_in_use import StrategyInUse


class Schedule:
    """Knows whether a collection is due.

    The session tells it what happens: a turn begins or ends, a request is made, usage is reported,
    a collection ends or is undone. Nothing else changes its state.

    Args:
        live: The history and its budget.
    """

    def __init__(self, live: LiveHistory) -> None:
        self._live = live
        self._guard = live.guard
        self.paused_at: int | None = None
        """The number of appended messages at an undo, which must not be collected again at once."""
        self.threshold_told = False
        """Whether the host was told in this turn that usage crossed the threshold."""
        self.threshold_crossed = False
        """Whether reported usage crossed the threshold since the last automatic collection."""
        self.requested_at: float | None = None
        """When the last request was made, by the clock of the session."""
        self.waits_until = 0
        """The number of tokens from which on a collection can gain something again."""
        self.strategy: StrategyInUse | None = None
        """The strategy; ``None``: there is none."""
        self.config = GCConfig()
        """The effective configuration."""
        self.output_reserve = 0
        """The room for the answer, in tokens, if the configuration does not set it."""
        self.update_limits()

    # --- the strategy, and the limits that follow from its configuration ---

    @guarded
    def set_strategy(self, strategy: StrategyInUse | None) -> StrategyInUse | None:
        """Sets the strategy; ``None``: removes it. Returns the previous one."""
        previous, self.strategy = self.strategy, strategy
        self.config = strategy.config if strategy else GCConfig()
        self.waits_until = 0
        self.update_limits()
        return previous

    @guarded
    def set_window(self, context_limit: int) -> None:
        """Sets the model's window, and allows another automatic collection.

        Raises:
            GCConfigError: The output reserve leaves less than a tenth of it.
        """
        self.config.check_reserve(context_limit)
        self._live.budget.context_limit = context_limit
        self.waits_until = 0
        self.update_limits()

    @guarded
    def set_output_reserve(self, tokens: int) -> None:
        """Sets the room for the answer.

        Unlike another window, it does not end a pause: hosts may change it with every request.

        Raises:
            GCConfigError: It leaves less than a tenth of the window.
        """
        self.config.with_output_reserve(tokens).check_reserve(self._live.budget.context_limit)
        self.output_reserve = tokens
        self.update_limits()

    def check_config(self, config: GCConfig) -> None:
        """Checks that a configuration can be used with the current window and output reserve.

        Raises:
            GCConfigError: The output reserve leaves less than a tenth of the window.
        """
        reserving = config.with_output_reserve(self.output_reserve)
        reserving.check_reserve(self._live.budget.context_limit)

    def update_limits(self) -> None:
        """Works out the limits of the current configuration, window and output reserve."""
        self.config = self.config.with_output_reserve(self.output_reserve)
        if self.strategy:
            self.strategy.config = self.config
        window = self._live.budget.context_limit
        self.request_limit = self.config.request_limit(window) or 0
        """The size of the largest request that may be sent."""

    @property
    def limits(self) -> Limits:
        """The figures for the content that is fixed now."""
        budget = self._live.budget
        return Limits.of(self.config, budget.context_limit, budget.fixed_tokens())

    def required_strategy(self) -> StrategyInUse:
        """Returns the strategy.

        Raises:
            NotConfiguredError: There is none.
        """
        strategy = self.strategy
        if strategy is None:
            raise NotConfiguredError("there is no strategy to collect with: call set_gc_plugin")
        return strategy

    def check_in_use(self, strategy: StrategyInUse | None) -> None:
        """Checks that a strategy was neither removed nor replaced; ``None`` stands for any.

        Raises:
            StalePlanError: It was.
        """
        if strategy is not None and strategy is not self.strategy:
            raise StalePlanError(f"{strategy.name} was removed or replaced since: make a new plan")

    # --- what happens ---

    def turn_began(self) -> None:
        """Lets the host be told again that usage crosses the threshold."""
        self.threshold_told = False

    def turn_ended(self) -> GCTriggerReason | None:
        """Returns the reason for a collection after the turn; ``None`` if there is none.

        A threshold that the provider's figures crossed during the turn is a reason too.
        """
        self.threshold_told = False
        reason, strategy = self.due(), self.strategy
        if reason is None and self.threshold_crossed and strategy and self._may_collect(strategy):
            reason = None if self.config.continuous_mode else GCTriggerReason.THRESHOLD
        self.threshold_crossed = False
        return reason

    def request_made(self, now: float) -> None:
        """Remembers when the provider's prompt cache was used."""
        self.requested_at = now

    @guarded
    def crossed(self, reported: float | None = None) -> tuple[float, float] | None:
        """Returns percentage and threshold if usage crosses it, and the host was not told yet.

        Args:
            reported: The usage that the provider reports; by default, the size of the next request.
        """
        tokens = self._live.budget.total_tokens() if reported is None else reported
        crossed = self.limits.crossed(tokens)
        if crossed is None:
            return None
        if reported is not None:
            self.threshold_crossed = True
        was_told, self.threshold_told = self.threshold_told, True
        return None if was_told else crossed

    def collected(self, result: GCResult) -> None:
        """Learns from the result of an automatic collection, applied or not.

        Manual ones do not come here, nor those for a refused request.
        After one that missed its goal, the next would too: it waits until enough came in.
        """
        self.threshold_crossed = False
        if result.outcome in (GCOutcome.REACHED, GCOutcome.NOT_NEEDED):
            self.waits_until = 0
        else:
            total = self._live.budget.total_tokens()
            self.waits_until = total + max(1, self.limits.min_free_tokens)

    def pause(self, commit: Commit) -> None:
        """Prepares a pause after an undo or a restore: until a message is appended."""
        commit.assign(self, paused_at=self._live.appended)

    def resume(self, commit: Commit) -> None:
        """Prepares the end of a pause, because the host edits the history."""
        commit.assign(self, paused_at=None)

    # --- whether a collection is due ---

    @property
    def paused_because(self) -> str | None:
        """Why automatic collections are off, if they are."""
        strategy = self.strategy
        if strategy and strategy.disabled:
            return strategy.disabled
        if self._live.budget.total_tokens() < self.waits_until:
            return (
                "the last collection did not reach its goal: the next one waits until the context "
                f"has {self.waits_until} tokens, or does not fit"
            )
        return None

    @property
    def asks_strategy(self) -> bool:
        """Whether the strategy decides itself when to collect, which may take a while."""
        return self.strategy is not None and not self.strategy.uses_core_trigger

    def due(self, unnamed: GCTriggerReason = GCTriggerReason.THRESHOLD) -> GCTriggerReason | None:
        """Returns the reason for an automatic collection now; ``None`` if there is none.

        Args:
            unnamed: The reason if the strategy gives none.
        """
        strategy = self.strategy
        if strategy is None or not self._may_collect(strategy):
            return None
        if strategy.uses_core_trigger:
            return self.limits.reached(self._live.budget.total_tokens(), self._live.turns)
        is_due, reason = strategy.should_collect(self._live.usage())
        return (reason or unnamed) if is_due else None

    def is_cache_cold(self, now: float) -> bool:
        """Returns whether the provider's prompt cache expired, and a collection is worth it now."""
        strategy, requested_at = self.strategy, self.requested_at
        if strategy is None or requested_at is None or not self._may_collect(strategy):
            return False
        return is_cache_cold(strategy.config, now - requested_at, self._live.usage())

    def _may_collect(self, strategy: StrategyInUse) -> bool:
        """Returns whether automatic collections are allowed at the moment."""
        return (
            not strategy.disabled
            and self.paused_at != self._live.appended
            and self._live.budget.total_tokens() >= self.waits_until
            and strategy.config.auto_trigger
        )
