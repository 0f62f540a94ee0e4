"""The journal: the last collections, which undo works from.

A session must not grow with its age, so the journal is bounded in two ways: by the number of
collections, and by the bytes that they take in a saved session. The newest can always be undone,
and with a stash older ones too: the journal then keeps only their keys.
"""

from collections.abc import Sequence
from dataclasses import replace

from jaato_gc.collecting import GCResult
from jaato_gc.commit import Commit, Guard, guarded
from jaato_gc.errors import NotConfiguredError, StashError, UndoError
from jaato_gc.history import Edit, in_order
from jaato_gc.messages import Message, is_ledger, stash_key
from jaato_gc.session.journal_entry import AppliedEdits, JournalEntry
from jaato_gc.stash import Stash, read_from, store_in

KEPT_COLLECTIONS = 200
"""The number of collections that a session keeps by default."""
KEPT_BYTES = 500_000
"""The size of the journal by default."""
MAX_STASHED_LEDGERS = 1_000
"""How many replaced ledgers in the stash are known: a saved session must not grow with its age."""


class Journal:
    """The last collections, oldest first, with what undo needs of those that were applied.

    Args:
        guard: The lock of the session.
        stash: Where removed messages are stored, if the session has a stash.
        keep: The number of collections that are kept.
        max_bytes: The size of what is kept of them; the newest is kept even if it is larger.
    """

    def __init__(self, guard: Guard, stash: Stash | None, keep: int, max_bytes: int) -> None:
        self._guard = guard
        self.stash = stash
        self.keep = keep
        self.max_bytes = max_bytes
        self.entries: tuple[JournalEntry, ...] = ()
        self.recorded = 0
        """The number of all collections, including those that are no longer kept."""
        self.plans_made = 0
        self.stashed_ledgers: list[str] = []
        """The keys of replaced ledgers in the stash, which `forget` has to change too."""

    @property
    def results(self) -> list[GCResult]:
        """The results of the kept collections, oldest first."""
        return [entry.result for entry in self.entries]

    @property
    def applied(self) -> list[JournalEntry]:
        """The collections that can be undone, newest last. The content of some may be gone."""
        return [entry for entry in self.entries if entry.state == "applied"]

    @guarded
    def next_id(self) -> str:
        """Returns the id of another collection."""
        self.plans_made += 1
        return f"gc_{self.plans_made}"

    # --- changing: prepared here, committed by the caller ---

    def record(self, commit: Commit, entry: JournalEntry) -> None:
        """Prepares another collection. The oldest ones go if there are too many."""
        entries = self._bounded((*self.entries, entry))
        commit.assign(self, entries=entries, recorded=self.recorded + 1)

    def mark_undone(self, commit: Commit, undone: JournalEntry) -> None:
        """Prepares the undo of a collection. The stash no longer has anything of it to return."""
        entries = list(self.entries)
        entries[entries.index(undone)] = replace(undone, state="undone", applied=None)
        commit.assign(self, entries=self._bounded(entries))

    def fill(self, entries: Sequence[JournalEntry]) -> None:
        """Fills an empty journal with saved entries, as far as its limits allow."""
        self.entries = self._bounded(entries)

    def _bounded(self, entries: Sequence[JournalEntry]) -> tuple[JournalEntry, ...]:
        """Returns the newest entries, without the content of older ones if that is too much."""
        kept = list(entries[max(0, len(entries) - self.keep) :])
        excess = sum(entry.size for entry in kept) - self.max_bytes
        for place, entry in enumerate(kept):
            is_newest = place == len(kept) - 1
            if excess > 0 and entry.has_content and (entry.is_stashed or not is_newest):
                kept[place] = entry.released()
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

    @guarded
    def newest(self, gc_id: str | None) -> JournalEntry:
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
        return self._find(gc_id)

    def removed_by(self, gc_id: str | None) -> list[Message]:
        """Returns the messages in the removal list of a collection, as they were before it.

        Raises:
            UndoError: There is no such collection, or its content is no longer kept.
        """
        if any(result.gc_id == gc_id and not result.removal_list for result in self.results):
            return []
        entry = self._find(gc_id)
        listed = {id_ for item in entry.result.removal_list for id_ in item.message_ids}
        removed = self.edits_of(entry).removed
        return [message for message in removed if message.message_id in listed]

    @guarded
    def _find(self, gc_id: str | None) -> JournalEntry:
        """Returns an applied collection, by default the newest."""
        found = [entry for entry in self.applied if gc_id in (None, entry.gc_id)]
        if not found:
            raise self._not_found(gc_id)
        entry = found[-1]
        if entry.applied and entry.applied.forgotten:
            raise UndoError(f"content of {entry.gc_id!r} was forgotten, so it can't be undone")
        return entry

    def _not_found(self, gc_id: str | None) -> UndoError:
        for entry in self.entries:
            if entry.gc_id == gc_id:
                why = "was undone already" if entry.state == "undone" else "changed nothing"
                return UndoError(f"{gc_id!r} {why}: see get_gc_history()")
        what = "there is no collection " + ("to undo" if gc_id is None else f"{gc_id!r:.80}")
        if not self.kept_note:
            return UndoError(what)
        return UndoError(
            f"{what}: {self.kept_note}. Give GCSession a larger keep_collections or journal_bytes, "
            "or restore older messages from a stash with restore_stashed(keys, at='tail')"
        )

    @property
    def kept_note(self) -> str:
        """How many collections are kept, for errors; empty if all are."""
        if self.recorded == len(self.entries):
            return ""
        return f"of {self.recorded} collections, the last {len(self.entries)} are kept"

    # --- the stash ---

    def required_stash(self, purpose: str) -> Stash:
        """Returns the stash.

        Args:
            purpose: The purpose, for the error.

        Raises:
            NotConfiguredError: There is none.
        """
        if self.stash is None:
            raise NotConfiguredError(
                f"there is no stash to {purpose}: give one to GCSession(stash=…)"
            )
        return self.stash

    def store(self, gc_id: str, edits: Sequence[Edit]) -> dict[str, str]:
        """Stores what edits remove in the stash, and returns the keys by message id.

        It may take long, so the lock must not be held.
        """
        messages = removed_for_stash(edits)
        if self.stash is None or not messages:
            return {}
        # Before they are stored: if this is interrupted, forgetting still reaches them.
        self._note_ledgers(messages)
        keys = store_in(self.stash, gc_id, messages)
        return {message.message_id: key for message, key in zip(messages, keys, strict=True)}

    @guarded
    def _note_ledgers(self, messages: Sequence[Message]) -> None:
        ledgers = [stash_key(message) for message in messages if is_ledger(message)]
        self.stashed_ledgers = [*self.stashed_ledgers, *ledgers][-MAX_STASHED_LEDGERS:]

    def edits_of(self, entry: JournalEntry) -> AppliedEdits:
        """Returns the edits of a collection with their content, from the stash if necessary.

        That may take long, so the lock must not be held.

        Raises:
            UndoError: The content is no longer kept, or the stash does not have it unchanged.
        """
        applied = entry.applied
        if applied is None:
            raise UndoError(
                f"the content of {entry.gc_id!r} is no longer kept: raise journal_bytes or use a "
                "stash"
            )
        if not applied.is_released:
            return applied
        if self.stash is None:
            raise UndoError("its content is in a stash: give that stash to the session")
        ids = [message.message_id for message in applied.removed]
        keys = [applied.stash_keys[message_id] for message_id in ids]
        try:
            messages = dict(zip(ids, read_from(self.stash, keys), strict=True))
        except StashError as error:
            raise UndoError(f"its content can't be read from the stash: {error}") from error
        for message_id, key in zip(ids, keys, strict=True):
            if stash_key(messages[message_id]) != key:
                raise UndoError(f"the content under {key!r} in the stash was redacted")
        edits = [
            edit._replace(before=messages[edit.before.message_id]) if edit.before else edit
            for edit in applied.edits
        ]
        return replace(applied, edits=edits, is_released=False)


def removed_for_stash(edits: Sequence[Edit]) -> list[Message]:
    """Returns the messages that a stash keeps of edits, in their order."""
    return [edit.before for edit in in_order(edits) if edit.before and edit.stash]
