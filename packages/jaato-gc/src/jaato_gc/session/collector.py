"""Runs collections: a plan is made, checked against what happened since, and applied.

A strategy may take seconds, and other threads must be able to append meanwhile. So it plans without
the lock. If something else changed what the plan changes, another plan is made.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jaato_gc.collecting import (
    GCOutcome,
    GCPlan,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    PlanRequest,
    make_plan,
)
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.errors import GCError, NotConfiguredError, StalePlanError
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.session.applying import apply, check_plan
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.observers import Observers
from jaato_gc.session.scheduling import Schedule
from jaato_gc.session.strategy_in_use import StrategyInUse

MAX_STALE_PLANS = 3
"""How often a collection is planned again because the history changed in between."""

SourceRemover = Callable[[InstructionSource, str | None], None]
"""Drops something that is not in the history: called with its source and key."""

_PLANNING: contextvars.ContextVar["Collector | None"] = contextvars.ContextVar(
    "jaato_gc_planning", default=None
)
"""The collector that a strategy works for. Its thread inherits that."""

_COLLECTING: contextvars.ContextVar["Collector | None"] = contextvars.ContextVar(
    "jaato_gc_collecting", default=None
)
"""The collector that this code runs below: an observer may ask for another collection."""

_CONVERSATION = InstructionSource.CONVERSATION

T = TypeVar("T")


@dataclass(slots=True)
class Collector:
    """Plans and applies the collections of one session.

    Args:
        live: The history and its budget.
        journal: The last collections.
        schedule: The strategy, and when it is used.
        observers: The observers of the session.
        remove_source: Drops content outside of the history, if the host can.
        may_relax: Whether core may remove recent content if a request would not fit.
    """

    live: LiveHistory
    journal: Journal
    schedule: Schedule
    observers: Observers
    remove_source: SourceRemover | None
    may_relax: bool
    _running: threading.Lock = field(default_factory=threading.Lock)
    _ended_collections: int = 0

    @property
    def _guard(self) -> Guard:
        return self.live.guard

    # --- collecting ---

    def collect(self, reason: GCTriggerReason, /, **overrides: Any) -> GCResult:
        """Plans and applies, after any other collection that is running.

        What a strategy planned is applied only if it is still in use.

        Raises:
            GCError: A strategy asks for it while it collects: it would wait for itself.
            NotConfiguredError: There is no strategy, or it was removed meanwhile.
        """
        if _PLANNING.get() is self:
            raise GCError("a strategy can't start another collection while it collects")
        return self.exclusively(lambda: self._collect(reason, overrides))

    def collect_automatically(
        self, reason: GCTriggerReason, /, **overrides: Any
    ) -> GCResult | None:
        """Plans and applies, unless another collection is running or the strategy was removed."""
        ended = self._ended_collections

        def collect() -> GCResult | None:
            if self._ended_collections != ended:  # another thread collected while this one waited
                return None
            return self.collect_if_configured(reason, **overrides)

        if self._running.locked() and not self._is_running_here:
            return None
        result = self.exclusively(collect)
        if result is not None:
            self.schedule.collected(result)
        return result

    def collect_if_configured(
        self, reason: GCTriggerReason, /, **overrides: Any
    ) -> GCResult | None:
        """Plans and applies; ``None`` if there is no strategy, or it was removed meanwhile."""
        try:
            return self.collect(reason, **overrides)
        except NotConfiguredError:
            return None

    def exclusively(self, function: Callable[[], T]) -> T:
        """Calls a function while no other thread collects. Observers may come here again."""
        if self._is_running_here:
            return function()
        # A plain lock, because an interrupt between taking a reentrant one and the next line would
        # leave it held. So code below a collection is known by its context.
        with self._running:
            before = _COLLECTING.set(self)
            try:
                return function()
            finally:
                _COLLECTING.reset(before)

    @property
    def _is_running_here(self) -> bool:
        return _COLLECTING.get() is self and self._running.locked()

    def _collect(self, reason: GCTriggerReason, overrides: Mapping[str, Any]) -> GCResult:
        try:
            for _ in range(1 + MAX_STALE_PLANS):
                strategy = self.schedule.required_strategy()
                plan = self.plan(strategy, reason, overrides)
                try:
                    return self.apply(plan, strategy)
                except StalePlanError as error:  # an undo, a pin or another strategy came first
                    stale = error
            return self._notify_ended(self._given_up(plan.result, [], 0, stale), plan.seconds)
        finally:
            self._ended_collections += 1

    # --- planning ---

    def plan(
        self, strategy: StrategyInUse, reason: GCTriggerReason, overrides: Mapping[str, Any]
    ) -> GCPlan:
        """Returns a plan for a collection.

        Raises:
            GCConfigError: An override is invalid.
        """
        config = strategy.config.for_one_collection(overrides)
        if overrides:
            config.check_reserve(self.live.budget.context_limit)
        if config.pinned_turn_indices and "pinned_turn_indices" not in overrides:
            # The session pinned the messages of those turns when the strategy was set.
            config = config.model_copy(update={"pinned_turn_indices": ()})
        usage, gc_id = self.live.usage(), self.journal.next_id()
        with self.live.lent() as (history, budget):
            self.observers.notify(
                "jaato_gc_before_collect",
                strategy=strategy.name,
                history=history,
                context_usage=usage,
                reason=reason,
            )
            # What the host asks of one collection holds as it is. A cold cache is no such request.
            is_asked = "target_percent" in overrides and reason is not GCTriggerReason.CACHE_COLD
            request = PlanRequest(
                strategy.name,
                history,
                {**usage, "fixed_tokens": 0} if is_asked else usage,
                config,
                reason,
                budget,
                strategy.notice,
                may_relax=self.may_relax,
                must_fit=True,
                gc_id=gc_id,
                describe=strategy.describe,
            )
            started = time.perf_counter()
            # In a context of its own: an interrupt can't leave the mark behind.
            context = contextvars.copy_context()
            context.run(_PLANNING.set, self)
            plan = context.run(make_plan, request, strategy.ask)
            seconds = time.perf_counter() - started
            return replace(plan, result=plan.result.frozen(), seconds=seconds)

    # --- applying ---

    def apply(self, plan: GCPlan, strategy: StrategyInUse | None = None) -> GCResult:
        """Applies a plan, as a whole or not at all.

        Args:
            plan: The plan.
            strategy: The strategy that must still be in use; ``None``: it does not matter.

        Raises:
            StalePlanError: A message that it changes was changed, pinned or removed since, or the
                strategy was.
        """
        started = time.perf_counter()
        result = plan.result
        if result.success and (result.removal_list or plan.edits):
            result = self._apply(plan, strategy)
        else:
            self.schedule.check_in_use(strategy)
            result = self._record(result)
        return self._notify_ended(result, plan.seconds + time.perf_counter() - started)

    def _notify_ended(self, result: GCResult, seconds: float) -> GCResult:
        """Notifies the observers of a collection that has ended."""
        self.observers.notify_of(result, "jaato_gc_after_collect", seconds=seconds)
        return result

    def _apply(self, plan: GCPlan, strategy: StrategyInUse | None) -> GCResult:
        """Tells other systems first: if one fails, the history is unchanged."""
        sources = [item for item in plan.result.removal_list if item.source is not _CONVERSATION]
        if sources or self.journal.stash is not None:
            self._check(plan, strategy)
        for item in sources:
            entry = self.live.budget.entry_under(item.source, item.child_key)
            if entry and entry.contains(GCPolicy.LOCKED):
                name = item.child_key or item.source.value
                raise StalePlanError(f"{name!r} was locked since: make a new plan")
        dropped: list[GCRemovalItem] = []
        freed = 0
        try:
            keys = self.journal.store(plan.gc_id, plan.edits)
            for item in sources:
                if self.remove_source:
                    self.remove_source(item.source, item.child_key)
                freed += self.live.drop(item.source, item.child_key)  # it is gone from here on
                dropped.append(item)
        except Exception as error:
            return self._given_up(plan.result, dropped, freed, error)
        try:
            result = self._commit(plan, strategy, keys, freed)
        except StalePlanError as error:
            if dropped:
                self._given_up(plan.result, dropped, freed, error)
            raise
        self.observers.budget_changed()
        return result

    @guarded
    def _commit(
        self, plan: GCPlan, strategy: StrategyInUse | None, keys: Mapping[str, str], freed: int
    ) -> GCResult:
        self._check(plan, strategy)
        return apply(
            self.live,
            self.journal,
            Commit(),
            plan.result,
            plan.edits,
            plan.before,
            keys=keys,
            dropped_tokens=freed,
        )

    @guarded
    def _record(self, result: GCResult) -> GCResult:
        """Journals a collection that changed nothing in the history. Returns its result."""
        result = result.frozen()
        commit = Commit()
        self.journal.record(commit, JournalEntry(result, "unchanged", None))
        self._guard.commit(commit)
        return result

    @guarded
    def _check(self, plan: GCPlan, strategy: StrategyInUse | None) -> None:
        """Checks that a plan can still be applied.

        Raises:
            StalePlanError: It can't.
        """
        self.schedule.check_in_use(strategy)
        check_plan(self.live, plan.edits, plan.before)

    def _given_up(
        self, result: GCResult, dropped: list[GCRemovalItem], freed: int, error: Exception
    ) -> GCResult:
        """Returns the result if a plan can't be applied. What the host dropped is gone."""
        total = self.live.budget.total_tokens()
        failed = replace(
            result,
            success=False,
            outcome=GCOutcome.FAILED,
            error=f"the history is unchanged: {type(error).__name__}: {error}",
            items_collected=len(dropped),
            tokens_before=total + freed,
            tokens_after=total,
            removal_list=dropped,
            notification=None,
        )
        failed = self._record(failed)
        if dropped:
            self.observers.budget_changed()
        return failed
