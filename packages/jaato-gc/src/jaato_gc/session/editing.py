"""Changes of the history that no strategy makes: the host's, repairs, undo and restore."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    cache_impact,
    make_result,
    removal_list,
)
from jaato_gc.commit import Commit, guarded
from jaato_gc.errors import NotConfiguredError
from jaato_gc.history import Edit, apply_edits
from jaato_gc.messages import Message
from jaato_gc.session.applying import Applier
from jaato_gc.session.forgetting import forget
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import HOST, RESTORE
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.observers import Observers
from jaato_gc.session.recovery import Place, Recovery
from jaato_gc.session.rewriting import prepare_undo
from jaato_gc.session.scheduling import Schedule
from jaato_gc.stash import Stash

_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})


class Editor:
    """Edits the history for the host, and undoes and restores what was removed.

    Args:
        live: The history and its budget.
        schedule: When the session collects.
        observers: The observers of the session.
        applier: Applies and journals edits.
        journal: The last collections.
        stash: The stash, if there is one.
    """

    def __init__(
        self,
        live: LiveHistory,
        schedule: Schedule,
        observers: Observers,
        applier: Applier,
        journal: Journal,
        stash: Stash | None,
    ) -> None:
        self._live = live
        self._guard = live.guard
        self._schedule = schedule
        self._observers = observers
        self._applier = applier
        self._journal = journal
        self._stash = stash
        self._recovery = Recovery(live, journal, stash)

    # --- edits of the host, and repairs ---

    def edit(
        self,
        edits_for: Callable[[LiveHistory], list[Edit]],
        made_by: str = HOST,
        reason: GCTriggerReason = GCTriggerReason.MANUAL,
        details: Mapping[str, Any] = _NO_DETAILS,
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
        result = self._edit(edits_for, made_by, reason, details)
        self._observers.budget_changed()
        return result

    @guarded
    def _edit(
        self,
        edits_for: Callable[[LiveHistory], list[Edit]],
        made_by: str,
        reason: GCTriggerReason,
        details: Mapping[str, Any],
    ) -> GCResult:
        edits = edits_for(self._live)
        result = self._result_of(edits, made_by, reason, details)
        keys = self._applier.store(result.gc_id or "", edits)
        commit = Commit()
        budget = self._live.budget
        removed = {edit.message_id for edit in edits if edit.before}
        left = {edit.after.message_id for edit in edits if edit.after}
        commit.assign(budget, pinned_message_ids=budget.pinned_message_ids - (removed - left))
        before = self._live.snapshot()
        return self._applier.apply(commit, result, edits, before, created_by=made_by, keys=keys)

    # --- undo and restore ---

    def undo(self, gc_id: str | None) -> None:
        """Undoes the newest collection.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        result = self._undo(gc_id)
        self._observers.budget_changed()
        self._observers.notify_of(result, "jaato_gc_after_undo")

    @guarded
    def _undo(self, gc_id: str | None) -> GCResult:
        entry = self._journal.newest(gc_id)
        commit = Commit()
        applied = self._recovery.complete(entry)
        if applied is not None:
            prepare_undo(self._live, commit, applied, is_collection=entry.is_collection)
        self._journal.mark_undone(commit, entry)
        self._schedule.pause(commit)
        self._guard.commit(commit)
        return entry.result

    def restore(self, keys: Sequence[str], at: Place) -> GCResult:
        """Puts stashed messages back.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash does not have them.
            GCError: There is no place for them.
        """
        result = self._restore(keys, at)
        self._observers.budget_changed()
        self._observers.notify_of(result, "jaato_gc_after_restore")
        return result

    @guarded
    def _restore(self, keys: Sequence[str], at: Place) -> GCResult:
        before, edits, restored, places = self._recovery.edits_to_restore(keys, at)
        details = {"restored": restored}
        result = self._result_of(edits, RESTORE, GCTriggerReason.MANUAL, details)
        commit = Commit()
        self._schedule.pause(commit)
        return self._applier.apply(
            commit,
            result,
            edits,
            before,
            created_by=None if at == "place" else RESTORE,
            keys={},
            places=places,
        )

    def _result_of(
        self,
        edits: Sequence[Edit],
        made_by: str,
        reason: GCTriggerReason,
        details: Mapping[str, Any],
    ) -> GCResult:
        """Returns the result of edits, without what applying them adds."""
        live = self._live
        counter, total = live.budget.counter, live.budget.total_tokens()
        items, _ = removal_list(edits, counter)
        return make_result(
            made_by,
            reason,
            GCOutcome.REACHED,
            (total, total),
            live.confidence,
            items=items,
            details=dict(details),
            cache=cache_impact(edits, apply_edits(live.messages, edits), counter),
            gc_id=self._applier.next_id(),
        )

    # --- reading and forgetting what was removed ---

    @guarded
    def removed_by(self, gc_id: str | None) -> list[Message]:
        """Returns the messages in the removal list of a collection, as they were before it.

        Raises:
            UndoError: There is no such collection, or its content is no longer kept.
        """
        return self._recovery.removed_by(gc_id)

    def forget(self, keys: Sequence[str]) -> int:
        """Forgets stashed messages. No other thread may collect meanwhile.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash failed. The session is unchanged.
        """
        if self._stash is None:
            raise NotConfiguredError(
                "there is no stash to forget in: give one to GCSession(stash=…)"
            )
        forgotten = self._forget(keys, self._stash)
        self._observers.budget_changed()
        return forgotten

    @guarded
    def _forget(self, keys: Sequence[str], stash: Stash) -> int:
        commit = Commit()
        forgotten = forget(commit, frozenset(keys), self._live, self._journal, stash, self._applier)
        self._guard.commit(commit)
        return forgotten
