"""Changes of the history that no strategy makes: the host's, repairs, undo and restore."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaato_gc.collecting import (
    GCOutcome,
    GCResult,
    GCTriggerReason,
    as_reported,
    cache_impact,
    make_result,
    removal_list,
)
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.errors import GCError
from jaato_gc.history import Edit, apply_edits
from jaato_gc.messages import Message, stash_key
from jaato_gc.session.applying import apply, prepare_undo
from jaato_gc.session.forgetting import forget
from jaato_gc.session.journal import Journal, removed_for_stash
from jaato_gc.session.journal_entry import HOST, REPAIR, RESTORE, AppliedEdits, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.session.observers import Observers
from jaato_gc.session.restoring import Place, ReadEntries, UnreadError, restoration_of
from jaato_gc.session.scheduling import Schedule
from jaato_gc.stash import read_from

EditsFor = Callable[[LiveHistory], list[Edit]]
"""Returns edits of a history, or raises if they are not possible."""


@dataclass(slots=True)
class _Stored:
    """What an edit has stored so far.

    A stash may take long, so it is asked without the lock. What must be stored is known only when
    the lock is held again: the history may have changed meanwhile.

    Args:
        gc_id: The id of the edit.
        wanted: The edits whose content has to be stored.
        keys: The keys in the stash, by message id.
        contents: What is stored, by its own key.
    """

    gc_id: str = ""
    wanted: list[Edit] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)

    def store_in(self, journal: Journal) -> None:
        """Stores what is wanted.

        Raises:
            StashError: The stash failed.
        """
        self.keys |= journal.store(self.gc_id, self.wanted)
        self.contents |= set(map(stash_key, removed_for_stash(self.wanted)))

    def has(self, edits: Sequence[Edit]) -> bool:
        """Returns whether all that edits remove is stored."""
        return self.contents.issuperset(map(stash_key, removed_for_stash(edits)))


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
        stored = _Stored()
        while (result := self._edit(edits_for, made_by, details, stored)) is None:
            stored.store_in(self.journal)
        self.observers.budget_changed()
        return result

    @guarded
    def _edit(
        self, edits_for: EditsFor, made_by: str, details: dict[str, Any], stored: "_Stored"
    ) -> GCResult | None:
        """Applies edits if the stash has what they remove; ``None``: it has to be stored first."""
        live, journal = self.live, self.journal
        edits = edits_for(live)
        result = self._result_of(edits, made_by, details, stored)
        if journal.stash is not None and not stored.has(edits):
            stored.wanted = edits
            return None
        commit = Commit()
        removed = {edit.message_id for edit in edits if edit.before}
        left = {edit.after.message_id for edit in edits if edit.after}
        live.budget.replace_pins(commit, live.budget.pinned_message_ids - (removed - left))
        self.schedule.resume(commit)
        return apply(live, journal, commit, result, edits, live.messages, keys=stored.keys)

    # --- undo and restore ---

    def undo(self, gc_id: str | None) -> None:
        """Undoes the newest collection.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        result = None
        while result is None:
            entry = self.journal.newest(gc_id)
            result = self._undo(gc_id, entry, self.journal.edits_of(entry))
        self.observers.budget_changed()
        self.observers.notify_of(result, "jaato_gc_after_undo")

    @guarded
    def _undo(
        self, gc_id: str | None, entry: JournalEntry, applied: AppliedEdits
    ) -> GCResult | None:
        """Undoes a collection; ``None`` if it is not the newest any more."""
        if self.journal.newest(gc_id) is not entry:
            return None
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
        stash = self.journal.required_stash("restore from")
        if not keys:
            raise GCError("there is nothing to restore: name at least one key")
        stored, read = read_from(stash, keys), ReadEntries()
        result = None
        while result is None:
            try:
                result = self._restore(stored, at, read)
            except UnreadError as unread:
                read.add(self.journal, unread.entry)
        self.observers.budget_changed()
        self.observers.notify_of(result, "jaato_gc_after_restore")
        return result

    @guarded
    def _restore(self, stored: Sequence[Message], at: Place, read: ReadEntries) -> GCResult:
        live, journal = self.live, self.journal
        edits, message_ids, places = restoration_of(stored, live, journal, at, read)
        result = self._result_of(edits, RESTORE, {"restored": message_ids}, _Stored())
        commit = Commit()
        self.schedule.pause(commit)
        return apply(live, journal, commit, result, edits, live.messages, keys={}, places=places)

    def _result_of(
        self, edits: Sequence[Edit], made_by: str, details: dict[str, Any], stored: "_Stored"
    ) -> GCResult:
        """Returns the result of edits, without what applying them adds."""
        live, reason = self.live, GCTriggerReason.MANUAL
        if made_by == REPAIR:
            reason = GCTriggerReason.PRE_MESSAGE
        counter, total = live.budget.counter, live.budget.total_tokens()
        items, _ = removal_list(edits, counter)
        stored.gc_id = stored.gc_id or self.journal.next_id()
        result = make_result(
            made_by,
            reason,
            GCOutcome.REACHED,
            (total, total),
            live.confidence,
            items=items,
            details=details,
            cache=cache_impact(edits, apply_edits(live.messages, edits), counter),
            gc_id=stored.gc_id,
        )
        return as_reported(result, live.budget.ratio)

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
