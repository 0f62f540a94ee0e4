"""The journal: the last collections, which undo works from.

A session must not grow with its age, so the journal is bounded in two ways: by the number of
collections, and by the bytes that they take in a saved session. The newest can always be undone,
and with a stash older ones too: the journal then keeps only their keys.
"""

from collections.abc import Sequence
from dataclasses import replace

from jaato_gc.collecting import GCResult
from jaato_gc.commit import Commit
from jaato_gc.errors import UndoError
from jaato_gc.session.journal_entry import JournalEntry
from jaato_gc.session.saved_journal import size_of

KEPT_COLLECTIONS = 200
"""The number of collections that a session keeps by default."""
KEPT_BYTES = 500_000
"""The size of the journal by default."""


class Journal:
    """The last collections, oldest first, with what undo needs of those that were applied.

    Args:
        keep: The number of collections that are kept.
        max_bytes: The size of what is kept of them; the newest is kept even if it is larger.
    """

    def __init__(self, keep: int = KEPT_COLLECTIONS, max_bytes: int = KEPT_BYTES) -> None:
        self.keep = keep
        self.max_bytes = max_bytes
        self.recorded = 0
        """The number of all collections, including those that are no longer kept."""
        self.entries: tuple[JournalEntry, ...] = ()

    @property
    def results(self) -> list[GCResult]:
        """The results of the kept collections, oldest first."""
        return [entry.result for entry in self.entries]

    @property
    def applied(self) -> list[JournalEntry]:
        """The collections that can be undone, newest last. The content of some may be gone."""
        return [entry for entry in self.entries if entry.state == "applied"]

    # --- changing: prepared here, committed by the caller ---

    def record(self, commit: Commit, entry: JournalEntry) -> None:
        """Prepares another collection. The oldest ones go if there are too many."""
        entries = self._bounded((*self.entries, _sized(entry)))
        commit.assign(self, entries=entries, recorded=self.recorded + 1)

    def fill(self, entries: Sequence[JournalEntry], recorded: int) -> None:
        """Fills an empty journal with saved entries, as far as its limits allow."""
        self.entries, self.recorded = self._bounded([*map(_sized, entries)]), recorded

    def replace(self, commit: Commit, entries: Sequence[JournalEntry]) -> None:
        """Prepares other forms of all entries."""
        commit.assign(self, entries=tuple(map(_sized, entries)))

    def mark_undone(self, commit: Commit, undone: JournalEntry) -> None:
        """Prepares the undo of a collection."""
        entries = list(self.entries)
        entries[entries.index(undone)] = _sized(undone.undone())
        commit.assign(self, entries=tuple(entries))

    def _bounded(self, entries: Sequence[JournalEntry]) -> tuple[JournalEntry, ...]:
        """Returns the newest entries, without the content of older ones if that is too much."""
        kept = list(entries[max(0, len(entries) - self.keep) :])
        excess = sum(entry.size for entry in kept) - self.max_bytes
        for place, entry in enumerate(kept):
            is_newest = place == len(kept) - 1
            if excess > 0 and entry.has_content and (entry.is_stashed or not is_newest):
                kept[place] = _sized(entry.released())
                excess -= entry.size - kept[place].size
        # With a stash, older collections can be undone too: what that needs stays.
        while excess > 0 and len(kept) > 1 and not kept[0].is_stashed:
            excess -= kept.pop(0).size
        return tuple(kept)

    # --- reading ---

    def is_undone(self, gc_id: str) -> bool:
        """Returns whether a collection was undone."""
        states = [entry.state for entry in self.entries if entry.gc_id == gc_id]
        return bool(states) and states[-1] == "undone"  # a plan may be applied again

    def newest(self, gc_id: str | None = None) -> JournalEntry:
        """Returns the entry to undo next.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        applied = self.applied
        if gc_id in [entry.gc_id for entry in applied[:-1]]:
            newest = applied[-1].gc_id
            raise UndoError(
                f"{gc_id!r} is not the newest collection, {newest!r} is: undo that one first"
            )
        return self.find(gc_id)

    def find(self, gc_id: str | None = None) -> JournalEntry:
        """Returns an applied collection, by default the newest.

        Raises:
            UndoError: There is none, or its content is no longer kept.
        """
        found = [entry for entry in self.applied if gc_id in (None, entry.gc_id)]
        if not found and gc_id is None:
            raise UndoError(f"there is no collection to undo{self._what_helps}")
        if not found:
            raise self._not_undoable(gc_id or "")
        entry = found[-1]
        if entry.applied is None:
            raise UndoError(
                f"the content of {entry.gc_id!r} is no longer kept: raise journal_bytes or use a "
                "stash"
            )
        if entry.applied.forgotten:
            raise UndoError(
                f"content of {entry.gc_id!r} was forgotten: it can't be undone any more"
            )
        return entry

    def _not_undoable(self, gc_id: str) -> UndoError:
        for entry in self.entries:
            if entry.gc_id == gc_id:
                why = "was undone already" if entry.state == "undone" else "changed nothing"
                return UndoError(f"{gc_id!r} {why}: see get_gc_history()")
        return UndoError(f"there is no collection {gc_id!r}{self._what_helps}")

    @property
    def _what_helps(self) -> str:
        if not self.kept_note:
            return ""
        return (
            f": {self.kept_note}. Give GCSession a larger keep_collections or journal_bytes, or "
            "restore older messages from a stash with restore_stashed(keys, at='tail')"
        )

    @property
    def kept_note(self) -> str:
        """How many collections are kept, for errors; empty if all are."""
        if self.recorded == len(self.entries):
            return ""
        return f"of {self.recorded} collections, the last {len(self.entries)} are kept"


def _sized(entry: JournalEntry) -> JournalEntry:
    return replace(entry, size=size_of(entry))
