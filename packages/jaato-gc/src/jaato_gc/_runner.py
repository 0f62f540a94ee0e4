"""Running collections: when one is due, plan, apply, undo, and stop when it is no use."""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from types import MappingProxyType
from typing import Any

from jaato_gc._account import cache_impact
from jaato_gc._breaker import Breaker
from jaato_gc._change import Change
from jaato_gc._collector import Collector
from jaato_gc._config import GCConfig, GCConfigOverrides
from jaato_gc._context import Context
from jaato_gc._errors import GCError, StalePlanError
from jaato_gc._journal import RESTORE, GCPlan, Journal, JournalEntry
from jaato_gc._ledger import BookedEntry
from jaato_gc._messages import Message
from jaato_gc._observers import Observers
from jaato_gc._policies import InstructionSource
from jaato_gc._recovery import Place, Recovery
from jaato_gc._results import GCOutcome, GCRemovalItem, GCResult, GCTriggerReason
from jaato_gc._stash import Stash
from jaato_gc._synthetic import is_notice
from jaato_gc._tokens import count_tokens

REAL_GAIN = 0.01
"""A collection that misses its goal and frees less than this share of the window was in vain."""

MAX_STALE_PLANS = 3
"""How often a collection is planned anew because something came in between."""

_NEVER = 10**9
"""More tokens or turns than there will be; Python compares numbers below 2**30 the quick way."""

SourceRemover = Callable[[InstructionSource, str | None], None]
"""Drops something that is not in the history: told its source and key."""


class Runner:
    """The collections of one session."""

    def __init__(
        self,
        context: Context,
        observers: Observers,
        journal: Journal,
        stash: Stash | None,
        remove_source: SourceRemover | None,
    ) -> None:
        self.context = context
        self.observers = observers
        self.journal = journal
        self.stash = stash
        self.recovery = Recovery(context, journal, stash)
        self.remove_source = remove_source
        self.collector: Collector | None = None
        self.breaker = Breaker()
        self.results: list[GCResult] = []
        self.plans_made = 0
        self.waits_for_message = False
        """Set by an undo: nobody wants its effect collected away at once."""
        self._running = threading.RLock()  # an observer may ask for another collection
        self.settle()

    @property
    def config(self) -> GCConfig:
        return self.collector.config if self.collector else GCConfig()

    def use(self, collector: Collector) -> None:
        """Collect with this from now on."""
        self.collector = collector
        self.breaker = Breaker()
        self.settle()

    def window_changed(self) -> None:
        self.breaker.something_changed()
        self.settle()

    def settle(self) -> None:
        """Work out what the window and the configuration amount to in tokens."""
        limit = self.context.budget.context_limit
        self.window = self.request_limit = limit
        # With fewer tokens and no more turns than these, nothing can be due.
        self.idle_below = self.idle_turns = _NEVER
        config = self.config
        if self.collector:
            self.window = config.window(limit) or limit
            self.request_limit = config.request_limit(limit) or 0
            asks_core = self.collector.asks_core
            # Any other answer is asked for, even where a correction makes the total negative.
            self.idle_below = (config.trigger_tokens(limit) or 0) if asks_core else -_NEVER
            if config.max_turns is not None:
                self.idle_turns = config.max_turns
        line = config.target_percent if config.continuous_mode else config.threshold_percent
        self.line_tokens = math.floor(self.window * line / 100)
        """An answer that has fewer tokens than this has not crossed the threshold."""

    def history_changed(self) -> None:
        if self.breaker.blocks:
            self.breaker.something_changed()
        self.waits_for_message = False

    def history_mended(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        """Note that a collection can't be undone any more if what it left was mended."""
        newest = self.journal.entries[-1].change if self.journal.entries else None
        if newest and not all(map(is_, before[: newest.length], after)):
            self.context.repairs += 1

    # --- when ---

    def is_idle(self) -> bool:
        """Whether nothing can be due, which is so in most turns: quicker than asking `due`."""
        context = self.context
        budget = context.ledger.budget
        tokens = budget.counted_tokens() + budget.correction
        return tokens < self.idle_below and context.turns <= self.idle_turns

    def due(
        self,
        unnamed: GCTriggerReason = GCTriggerReason.THRESHOLD,
        *,
        was_crossed: bool = False,
    ) -> GCTriggerReason | None:
        """The reason for an automatic collection, if there is one and they may start at the moment.

        Args:
            unnamed: The reason where the strategy gives none.
            was_crossed: The provider reported a figure above the threshold, even if our own is not.
        """
        collector = self.collector
        if (
            collector is None
            or collector.disabled
            or self.breaker.blocks
            or self.waits_for_message
            or not collector.config.auto_trigger
        ):
            return None
        if not collector.asks_core:
            is_due, reason = collector.should_collect(self.context.usage())
            if is_due:
                return reason or unnamed
        elif self.context.budget.total_tokens() >= self.idle_below:
            return GCTriggerReason.THRESHOLD
        elif self.context.turns > self.idle_turns:
            return GCTriggerReason.TURN_LIMIT
        if was_crossed and not collector.config.continuous_mode:
            return GCTriggerReason.THRESHOLD
        return None

    # --- what ---

    def collect(
        self,
        reason: GCTriggerReason,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> GCResult:
        """Plan and apply, when no other collection is under way."""
        with self._running:
            for _ in range(MAX_STALE_PLANS):
                try:
                    return self.apply(self.plan(reason, overrides))
                except StalePlanError:  # an undo or a pin came in between
                    continue
            return self.apply(self.plan(reason, overrides))

    def collect_automatically(
        self,
        reason: GCTriggerReason,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> GCResult | None:
        """Plan and apply, unless another collection is under way, and learn from what it brings."""
        if not self._running.acquire(blocking=False):
            return None
        try:
            result = self.collect(reason, overrides)
        finally:
            self._running.release()
        window = self.config.window(self.context.budget.context_limit) or 1
        freed = result.tokens_freed - sum(
            item.tokens_freed
            for item in result.removal_list
            if item.source is InstructionSource.ENRICHMENT  # it will be back
        )
        reached = result.outcome is GCOutcome.REACHED
        gained = freed > 0 and (reached or freed >= window * REAL_GAIN)
        self.breaker.record(gained, result.error or f"the last outcome was {result.outcome}")
        return result

    def plan(self, reason: GCTriggerReason, overrides: Mapping[str, Any]) -> GCPlan:
        """Work out a collection and hold it."""
        if self.collector is None:
            raise GCError("there is no strategy to collect with: call set_gc_plugin first")
        checked = GCConfigOverrides(**overrides).given()
        collector = self.collector
        with self.context.lock:
            usage = self.context.usage()
            self.plans_made += 1
            gc_id = f"gc_{self.plans_made}"
        with self.context.lent() as (history, budget, carrying):
            name, agent_id = collector.plugin.name, budget.agent_id
            self.observers.collection_starts(name, history, usage, reason, agent_id)
            started = time.perf_counter()
            plan = collector.plan(history, usage, reason, budget, gc_id, checked, carrying)
            plan.seconds = time.perf_counter() - started
            return plan

    def apply(self, plan: GCPlan) -> GCResult:
        """Carry a plan out, as a whole or not at all."""
        started = time.perf_counter()
        result = plan.result
        if result.success and (result.removal_list or not plan.changes_nothing):
            result = self._carry_out(plan)
        else:
            self.results.append(result)
        seconds = plan.seconds + time.perf_counter() - started
        agent_id = self.context.budget.agent_id
        self.observers.collection_ended(result, self.context.history, agent_id, seconds)
        return result

    def _carry_out(self, plan: GCPlan) -> GCResult:
        result, context = plan.result, self.context
        context.check_beginning(plan.before)
        self._check_pins(plan)
        elsewhere = [
            item
            for item in result.removal_list
            if item.source is not InstructionSource.CONVERSATION
        ]
        dropped: list[GCRemovalItem] = []
        freed = 0
        keys: dict[str, str] = {}
        try:  # what others do comes first: if it fails, the history has not changed yet
            if self.stash is not None and (to_keep := _to_keep(plan)):
                ids = (message.message_id for message in to_keep)
                keys = dict(zip(ids, self.stash.put(plan.gc_id, to_keep), strict=True))
            for item in elsewhere:
                if self.remove_source:
                    self.remove_source(item.source, item.child_key)
                # The host has dropped it, whatever happens next.
                freed += context.drop(item.source, item.child_key)
                dropped.append(item)
        except Exception as error:
            return self._given_up(result, dropped, freed, error)
        with context.lock:
            total = context.budget.total_tokens()
            self._check_pins(plan)
            change, touched = context.exchange(
                plan.before, plan.after, result.plugin_name, plan.change
            )
            context.budget.collections += 1
            if all(message_id in keys for message_id in change.ids):
                change.keys = [keys[message_id] for message_id in change.ids]
            result = replace(
                result,
                tokens_before=total + freed,
                tokens_after=context.budget.total_tokens(),
                details=dict(result.details),
                removal_list=_with_keys(result.removal_list, keys),
            )
            self._enter(result, change, touched)
        self.observers.budget_changed(context.budget)
        return result

    def _enter(self, result: GCResult, change: Change, touched: list[BookedEntry]) -> None:
        tokens = count_tokens(change.gone, self.context.budget.counter)
        self.journal.add(JournalEntry(result, change, touched, tokens))
        self.results.append(result)

    def _check_pins(self, plan: GCPlan) -> None:
        with self.context.lock:
            pinned = self.context.budget.pinned_message_ids
            for message in plan.change.gone if pinned else ():
                if is_notice(message):
                    continue  # replaced by the next one, pinned or not
                if message.message_id in pinned:
                    raise StalePlanError(
                        f"message {message.message_id!r} was pinned since: make a new plan"
                    )

    def _given_up(
        self, result: GCResult, dropped: list[GCRemovalItem], freed: int, error: Exception
    ) -> GCResult:
        """The account of a collection that somebody else could not do their part of."""
        total = self.context.budget.total_tokens()
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
        self.results.append(failed)
        if dropped:
            self.observers.budget_changed(self.context.budget)
        return failed

    def undo(self, gc_id: str | None) -> None:
        """Take the newest collection back."""
        with self.context.lock:
            entry = self.journal.newest(gc_id)
            if entry.change is not None:
                self.context.revert(self.recovery.complete(entry.change), entry.touched)
            self.journal.pop()
            entry.result.details["undone"] = True
            self.context.budget.collections -= not entry.is_restore
            self.waits_for_message = True
        self.observers.budget_changed(self.context.budget)

    def restore(self, keys: Sequence[str], at: Place) -> GCResult:
        """Put stashed messages back."""
        context = self.context
        with context.lock:
            before, after, restored = self.recovery.with_restored(keys, at)
            total = context.budget.total_tokens()
            created_by = None if at == "place" else RESTORE
            change, touched = context.exchange(before, after, created_by)
            self.plans_made += 1
            result = GCResult(
                success=True,
                items_collected=0,
                tokens_before=total,
                tokens_after=context.budget.total_tokens(),
                plugin_name=RESTORE,
                trigger_reason=GCTriggerReason.MANUAL,
                details={"restored": restored},
                outcome=GCOutcome.REACHED,
                cache=cache_impact(before, after, context.budget.counter),
                confidence=context.confidence,
                gc_id=f"gc_{self.plans_made}",
            )
            self._enter(result, change, touched)
            self.history_changed()
            self.waits_for_message = True
        self.observers.budget_changed(context.budget)
        return result


def _with_keys(items: list[GCRemovalItem], keys: Mapping[str, str]) -> list[GCRemovalItem]:
    if not keys:
        return items
    return [
        replace(item, stash_keys=tuple(keys[each] for each in item.message_ids if each in keys))
        for item in items
    ]


def _to_keep(plan: GCPlan) -> list[Message]:
    """What a plan removes or clears, but for what its strategy says is not worth keeping."""
    worthless = {
        message_id
        for item in plan.result.removal_list
        if not item.keep
        for message_id in item.message_ids
    }
    return [message for message in plan.change.gone if message.message_id not in worthless]
