"""Applying plans, undoing them, and restoring content: as a whole or not at all."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from jaato_gc.collecting import (
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    cache_impact,
)
from jaato_gc.errors import GCError, NotConfiguredError, StalePlanError
from jaato_gc.history import Edit, apply_edits, in_order
from jaato_gc.messages import is_ledger
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.session.forgetting import forget
from jaato_gc.session.host_edits import removal_items
from jaato_gc.session.journal import HOST, RESTORE, AppliedEdits, GCPlan, Journal, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.observers import Observers
from jaato_gc.session.planning import Planner
from jaato_gc.session.recovery import Place, Recovery
from jaato_gc.session.scheduling import Schedule
from jaato_gc.stash import Stash
from jaato_gc.tokens import count_tokens

MAX_STALE_PLANS = 3
"""How often a collection is planned again because the history changed in between."""

MAX_STASHED_LEDGERS = 1_000
"""How many replaced ledgers in the stash are known: a saved session must not grow with its age."""

SourceRemover = Callable[[InstructionSource, str | None], None]
"""Drops something that is not in the history: called with its source and key."""

_PLANNING: contextvars.ContextVar["Collections | None"] = contextvars.ContextVar(
    "jaato_gc_planning", default=None
)
"""The collections that a strategy works for. Its thread inherits that."""

_CONVERSATION = InstructionSource.CONVERSATION
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Collections:
    """The collections of one session: planned, applied, undone.

    Args:
        live: The history and its budget.
        schedule: The strategy, and when it is used.
        observers: The observers of the session.
        journal: The last collections.
        stash: The stash, if there is one.
        remove_source: Drops content outside of the history, if the host can.
        all_steps: Whether core may remove recent content if a request would not fit.
    """

    def __init__(
        self,
        live: LiveHistory,
        schedule: Schedule,
        observers: Observers,
        journal: Journal,
        stash: Stash | None,
        remove_source: SourceRemover | None,
        *,
        all_steps: bool = True,
    ) -> None:
        self._live = live
        self._schedule = schedule
        self._observers = observers
        self.journal = journal
        self.stash = stash
        self.recovery = Recovery(live, journal, stash)
        self._remove_source = remove_source
        self._all_steps = all_steps
        self.plans_made = 0
        self.stashed_ledgers: list[str] = []
        """The keys of replaced ledgers in the stash, which `forget` has to change too."""
        self._running = threading.RLock()  # reentrant: an observer may ask for a collection

    # --- collecting ---

    def collect(self, reason: GCTriggerReason, overrides: Mapping[str, Any] = _NOTHING) -> GCResult:
        """Plans and applies, after any other collection that is running.

        What a strategy planned is applied only if it is still in use.

        Raises:
            GCError: A strategy asks for it while it collects: it would wait for itself.
            NotConfiguredError: There is no strategy, or it was removed meanwhile.
        """
        if _PLANNING.get() is self:
            raise GCError("a strategy can't start another collection while it collects")
        with self._running:
            for _ in range(1 + MAX_STALE_PLANS):
                planner = self._schedule.strategy()
                plan = self._plan(planner, reason, overrides)
                try:
                    return self.apply(plan, planner)
                except StalePlanError as error:  # an undo, a pin or another strategy came first
                    stale = error
            return self._ended(self._given_up(plan.result, [], 0, stale), plan.seconds)

    def collect_automatically(
        self, reason: GCTriggerReason, overrides: Mapping[str, Any] = _NOTHING
    ) -> GCResult | None:
        """Plans and applies, unless another collection is running or the strategy was removed."""
        if not self._running.acquire(blocking=False):
            return None
        try:
            result = self.collect_if_configured(reason, overrides)
        finally:
            self._running.release()
        if result is not None:
            self._schedule.record(result)
        return result

    def collect_if_configured(
        self, reason: GCTriggerReason, overrides: Mapping[str, Any] = _NOTHING
    ) -> GCResult | None:
        """Plans and applies; ``None`` if there is no strategy, or it was removed meanwhile."""
        try:
            return self.collect(reason, overrides)
        except NotConfiguredError:
            return None

    def plan(self, reason: GCTriggerReason, overrides: Mapping[str, Any]) -> GCPlan:
        """Returns a plan for a collection.

        Raises:
            NotConfiguredError: There is no strategy.
            GCConfigError: An override is invalid.
        """
        return self._plan(self._schedule.strategy(), reason, overrides)

    def _plan(
        self, planner: Planner, reason: GCTriggerReason, overrides: Mapping[str, Any]
    ) -> GCPlan:
        config = planner.config.for_one_collection(overrides)
        if config.pinned_turn_indices and "pinned_turn_indices" not in overrides:
            # The session pinned the messages of those turns when the strategy was set.
            config = config.model_copy(update={"pinned_turn_indices": ()})
        with self._live.lock:
            usage = self._live.usage()
            self.plans_made += 1
            gc_id = f"gc_{self.plans_made}"
        with self._live.lent() as (history, budget):
            self._observers.notify(
                "jaato_gc_before_collect",
                plugin_name=planner.name,
                history=history,
                context_usage=usage,
                reason=reason,
            )
            started = time.perf_counter()
            before = _PLANNING.set(self)
            try:
                plan = planner.plan(
                    history, usage, reason, budget, gc_id, config, all_steps=self._all_steps
                )
            finally:
                _PLANNING.reset(before)
            return replace(plan, seconds=time.perf_counter() - started)

    # --- applying ---

    def apply(self, plan: GCPlan, planner: Planner | None = None) -> GCResult:
        """Applies a plan, as a whole or not at all.

        Args:
            plan: The plan.
            planner: The strategy that must still be in use; ``None``: it does not matter.

        Raises:
            StalePlanError: A message that it changes was changed, pinned or removed since, or the
                strategy was.
        """
        started = time.perf_counter()
        result = plan.result
        if result.success and (result.removal_list or plan.edits):
            result = self._apply(plan, planner)
        else:
            with self._live.lock:
                self._schedule.check_in_use(planner)
                self._record(result)
        return self._ended(result, plan.seconds + time.perf_counter() - started)

    def _ended(self, result: GCResult, seconds: float) -> GCResult:
        """Notifies the observers of a collection that has ended."""
        self._observers.notify_of(result, "jaato_gc_after_collect", seconds=seconds)
        return result

    def _apply(self, plan: GCPlan, planner: Planner | None) -> GCResult:
        live, result = self._live, plan.result
        sources = [item for item in result.removal_list if item.source is not _CONVERSATION]
        if self.stash or sources:  # before other systems are told
            self._schedule.check_in_use(planner)
            live.check_plan(plan.edits, plan.before)
            self._check_sources(sources)
        dropped: list[GCRemovalItem] = []
        freed = 0
        try:  # other systems come first: if one fails, the history is unchanged
            keys = self._put_into_stash(plan)
            for item in sources:
                if self._remove_source:
                    self._remove_source(item.source, item.child_key)
                freed += live.drop(item.source, item.child_key)  # it is gone from here on
                dropped.append(item)
        except Exception as error:
            return self._given_up(result, dropped, freed, error)
        try:
            applied = self._commit(plan, planner, keys, freed)
        except StalePlanError as error:
            if dropped:
                self._given_up(result, dropped, freed, error)
            raise
        self._observers.budget_changed()
        return applied

    def _commit(
        self, plan: GCPlan, planner: Planner | None, keys: Mapping[str, str], freed: int
    ) -> GCResult:
        """Changes history, budget and journal at once."""
        live, result = self._live, plan.result
        with live.lock:
            self._schedule.check_in_use(planner)
            live.check_plan(plan.edits, plan.before)
            total = live.budget.total_tokens()
            applied = live.apply(plan.edits, plan.before, result.plugin_name)
            live.budget.collections += 1
            if all(message.message_id in keys for message in applied.removed):
                applied.stash_keys = dict(keys)
            result = replace(
                result,
                tokens_before=total + freed,
                tokens_after=live.budget.total_tokens(),
                details=dict(result.details),
                removal_list=_with_stash_keys(result.removal_list, keys),
            )
            self._enter(result, applied)
        return result

    def _check_sources(self, items: Sequence[GCRemovalItem]) -> None:
        for item in items:
            entry = self._live.budget.entry_under(item.source, item.child_key)
            if entry and entry.contains(GCPolicy.LOCKED):
                name = item.child_key or item.source.value
                raise StalePlanError(f"{name!r} was locked since: make a new plan")

    def _put_into_stash(self, plan: GCPlan) -> dict[str, str]:
        """Stores what a plan removes, and returns the keys by message id."""
        if self.stash is None:
            return {}
        messages = [edit.before for edit in in_order(plan.edits) if edit.before and edit.keep]
        if not messages:
            return {}
        stored = list(zip(messages, self.stash.put(plan.gc_id, messages), strict=True))
        self.stashed_ledgers += [key for message, key in stored if is_ledger(message)]
        del self.stashed_ledgers[:-MAX_STASHED_LEDGERS]
        return {message.message_id: key for message, key in stored}

    def _enter(self, result: GCResult, applied: AppliedEdits) -> None:
        tokens = count_tokens(applied.removed, self._live.budget.counter)
        self.journal.add(JournalEntry(result, applied, tokens), self._live.budget.context_limit)

    def _record(self, result: GCResult) -> None:
        with self._live.lock:
            self.journal.record(result)

    def _given_up(
        self, result: GCResult, dropped: list[GCRemovalItem], freed: int, error: Exception
    ) -> GCResult:
        """Returns the result if a plan can't be applied. What the host dropped is gone."""
        total = self._live.budget.total_tokens()
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
        self._record(failed)
        if dropped:
            self._observers.budget_changed()
        return failed

    # --- undoing and restoring ---

    def undo(self, gc_id: str | None) -> None:
        """Undoes the newest collection.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        with self._live.lock:
            entry = self.journal.newest(gc_id)
            applied = self.recovery.complete(entry)
            if applied is not None:
                self._live.revert(applied)
            self.journal.entries.pop()
            entry.result.details["undone"] = True
            if entry.is_collection:
                self._live.budget.forget_collection()
            self._schedule.waits_for_message = True
        self._observers.budget_changed()
        self._observers.notify_of(entry.result, "jaato_gc_after_undo")

    def restore(self, keys: Sequence[str], at: Place) -> GCResult:
        """Puts stashed messages back.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash does not have them.
            GCError: There is no place for them.
        """
        live = self._live
        with live.lock:
            before, edits, restored, places = self.recovery.edits_to_restore(keys, at)
            total = live.budget.total_tokens()
            created_by = None if at == "place" else RESTORE
            applied = live.apply(edits, before, created_by, places)
            self.plans_made += 1
            result = GCResult(
                success=True,
                items_collected=0,
                tokens_before=total,
                tokens_after=live.budget.total_tokens(),
                plugin_name=RESTORE,
                trigger_reason=GCTriggerReason.MANUAL,
                details={"restored": restored},
                outcome=GCOutcome.REACHED,
                cache=cache_impact(edits, apply_edits(before, edits), live.budget.counter),
                confidence=live.confidence,
                gc_id=f"gc_{self.plans_made}",
            )
            self._enter(result, applied)
            self._schedule.history_changed()
            self._schedule.waits_for_message = True
        self._observers.budget_changed()
        self._observers.notify_of(result, "jaato_gc_after_restore")
        return result

    def forget(self, keys: Iterable[str]) -> int:
        """Forgets stashed messages, after any collection that is running.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash failed. The session is unchanged.
        """
        if self.stash is None:
            raise NotConfiguredError(
                "there is no stash to forget in: give one to GCSession(stash=…)"
            )
        with self._running, self._live.lock:
            forgotten = forget(
                frozenset(keys), self._live, self.journal, self.stash, self.stashed_ledgers
            )
        self._observers.budget_changed()
        return forgotten

    def edit(
        self,
        edits_for: Callable[[LiveHistory], list[Edit]],
        made_by: str = HOST,
        reason: GCTriggerReason = GCTriggerReason.MANUAL,
        details: Mapping[str, Any] = _NOTHING,
    ) -> GCResult:
        """Applies edits that no strategy made, and journals them.

        Args:
            edits_for: Returns the edits. It raises if they are not possible.
            made_by: The plugin name in the result.
            reason: The trigger reason in the result.
            details: The details in the result.

        Raises:
            StashError: The stash failed. Nothing has changed.
        """
        live = self._live
        with live.lock:
            edits = edits_for(live)
            before = tuple(live.messages)
            counter = live.budget.counter
            self.plans_made += 1
            items = removal_items(edits, counter)
            result = GCResult(
                success=True,
                items_collected=len(items),
                tokens_before=live.budget.total_tokens(),
                tokens_after=0,
                plugin_name=made_by,
                trigger_reason=reason,
                details=dict(details),
                removal_list=items,
                outcome=GCOutcome.REACHED,
                cache=cache_impact(edits, apply_edits(before, edits), counter),
                confidence=live.confidence,
                gc_id=f"gc_{self.plans_made}",
            )
            keys = self._put_into_stash(GCPlan(result.gc_id or "", before, tuple(edits), result))
            applied = live.apply(edits, before, made_by)
            removed = {message.message_id for message in applied.removed}
            if removed <= keys.keys():
                applied.stash_keys = keys
            left = {message.message_id for message in applied.added}
            live.budget.pinned_message_ids -= removed - left
            result = replace(
                result,
                tokens_after=live.budget.total_tokens(),
                removal_list=_with_stash_keys(items, keys),
            )
            self._enter(result, applied)
            self._schedule.history_changed()
        self._observers.budget_changed()
        return result


def _with_stash_keys(items: list[GCRemovalItem], keys: Mapping[str, str]) -> list[GCRemovalItem]:
    if not keys:
        return items
    return [
        replace(item, stash_keys=[keys[each] for each in item.message_ids if each in keys])
        for item in items
    ]
