"""Changes of the history that no strategy makes: the host's, repairs, undo and restore."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    cache_impact,
    make_result,
    removal_list,
)
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.history import Edit, apply_edits
from jaato_gc.session.applying import apply, prepare_undo
from jaato_gc.session.forgetting import forget
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import HOST, REPAIR, RESTORE
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.observers import Observers
from jaato_gc.session.restoring import Place, restoration_of
from jaato_gc.session.scheduling import Schedule

EditsFor = Callable[[LiveHistory], list[Edit]]
"""Returns edits of a history, or raises if they are not possible."""


@dataclass(slots=True)
class Editor:
    """Edits the history for the host, and undoes and restores what was removed.

    Args:
        live: The history and its budget.
        journal: The last collections.
        schedule: When the session collects.
        observers: The observers of the session.
    """

    live: LiveHistory
    journal: Journal
    schedule: Schedule
    observers: Observers

    @property
    def _guard(self) -> Guard:
        return self.live.guard

    # --- edits of the host, and repairs ---

    def edit(self, edits_for: EditsFor, made_by: str = HOST, **details: Any) -> GCResult:
        """Applies edits that no strategy made, and journals them.

        Args:
            edits_for: Returns the edits. It raises if they are not possible.
            made_by: The plugin name in the result.
            **details: The details in the result.

        Raises:
            StashError: The stash failed. Nothing has changed.
        """
        result = self._edit(edits_for, made_by, details)
        self.observers.budget_changed()
        return result

    @guarded
    def _edit(self, edits_for: EditsFor, made_by: str, details: dict[str, Any]) -> GCResult:
        live, journal = self.live, self.journal
        edits = edits_for(live)
        result = self._result_of(edits, made_by, details)
        keys = journal.store(result.gc_id or "", edits)
        commit = Commit()
        removed = {edit.message_id for edit in edits if edit.before}
        left = {edit.after.message_id for edit in edits if edit.after}
        live.budget.replace_pins(commit, live.budget.pinned_message_ids - (removed - left))
        self.schedule.resume(commit)
        return apply(live, journal, commit, result, edits, live.messages, keys=keys)

    # --- undo and restore ---

    def undo(self, gc_id: str | None) -> None:
        """Undoes the newest collection.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        result = self._undo(gc_id)
        self.observers.budget_changed()
        self.observers.notify_of(result, "jaato_gc_after_undo")

    @guarded
    def _undo(self, gc_id: str | None) -> GCResult:
        entry = self.journal.newest(gc_id)
        applied = self.journal.edits_of(entry)
        commit = Commit()
        prepare_undo(self.live, commit, applied, is_collection=entry.is_collection)
        self.journal.mark_undone(commit, entry)
        self.schedule.pause(commit)
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
        self.observers.budget_changed()
        self.observers.notify_of(result, "jaato_gc_after_restore")
        return result

    @guarded
    def _restore(self, keys: Sequence[str], at: Place) -> GCResult:
        live, journal = self.live, self.journal
        edits, message_ids, places = restoration_of(keys, live, journal, at)
        result = self._result_of(edits, RESTORE, {"restored": message_ids})
        commit = Commit()
        self.schedule.pause(commit)
        return apply(live, journal, commit, result, edits, live.messages, keys={}, places=places)

    def _result_of(self, edits: Sequence[Edit], made_by: str, details: dict[str, Any]) -> GCResult:
        """Returns the result of edits, without what applying them adds."""
        live, reason = self.live, GCTriggerReason.MANUAL
        if made_by == REPAIR:
            reason = GCTriggerReason.PRE_MESSAGE
        counter, total = live.budget.counter, live.budget.total_tokens()
        items, _ = removal_list(edits, counter)
        return make_result(
            made_by,
            reason,
            GCOutcome.REACHED,
            (total, total),
            live.confidence,
            items=items,
            details=details,
            cache=cache_impact(edits, apply_edits(live.messages, edits), counter),
            gc_id=self.journal.next_id(),
        )

    # --- forgetting ---

    def forget(self, keys: Sequence[str]) -> int:
        """Forgets stashed messages. No other thread may collect meanwhile.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash failed. The session is unchanged.
        """
        forgotten = forget(self.live, self.journal, keys)
        self.observers.budget_changed()
        return forgotten
