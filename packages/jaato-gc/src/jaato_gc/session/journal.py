"""Plans, and the journal of collections that undo works from."""

from collections import deque
from dataclasses import dataclass, field

from jaato_gc.budget import BookedEntry
from jaato_gc.collecting import GCResult
from jaato_gc.errors import UndoError
from jaato_gc.history import Edit, apply_edits
from jaato_gc.messages import Message

KEPT_COLLECTIONS = 200
"""The number of collections that a session keeps by default."""
KEPT_WINDOWS = 2
"""The number of windows of removed content that a session keeps by default."""

RESTORE = "restore"
"""The plugin name in the result of `GCSession.restore_stashed`."""
HOST = "host"
"""The plugin name in the result of `GCSession.remove` and `GCSession.replace`."""
REPAIR = "repair"
"""The plugin name in the result of a repair."""


@dataclass(frozen=True, slots=True)
class GCPlan:
    """A collection that is worked out but not applied.

    Apply it with `GCSession.apply` at any time. Messages that were appended since stay at the end.

    Args:
        gc_id: Its id in the journal, once applied.
        before: The history that it was made for.
        edits: What it changes.
        result: What its result would be.
        seconds: The time that planning took.
    """

    gc_id: str
    before: tuple[Message, ...]
    edits: tuple[Edit, ...]
    result: GCResult
    seconds: float = field(default=0.0, compare=False)

    @property
    def after(self) -> list[Message]:
        """The history that would remain."""
        return apply_edits(self.before, self.edits)

    @property
    def changes_nothing(self) -> bool:
        """Whether the history would stay as it is."""
        return not self.edits


@dataclass(slots=True)
class AppliedEdits:
    """Edits that were applied, with what is needed to undo them.

    Args:
        edits: The edits.
        touched: The budget entries that they changed, as they were.
        length: The number of messages that the edited part of the history has after them.
        reports: How often the provider had reported its usage until then.
        places: The places of the messages that left the history, by id: see `LiveHistory.places`.
        stash_keys: The keys of all messages that left the history, by id, if all are stashed.
        forgotten: Whether messages were forgotten. Their edits are dropped.
    """

    edits: list[Edit]
    touched: list[BookedEntry]
    length: int
    reports: int
    places: dict[str, int] = field(default_factory=dict)
    stash_keys: dict[str, str] = field(default_factory=dict)
    forgotten: bool = False

    @property
    def removed(self) -> list[Message]:
        """The messages that left the history, in their order."""
        return [edit.before for edit in self.edits if edit.before is not None]

    @property
    def added(self) -> list[Message]:
        """The messages that entered the history, in their order."""
        return [edit.after for edit in self.edits if edit.after is not None]


@dataclass(slots=True)
class JournalEntry:
    """An applied collection.

    Args:
        result: Its result.
        applied: Its edits; ``None`` if its content is no longer kept.
        tokens: The tokens of the content that is kept here.
    """

    result: GCResult
    applied: AppliedEdits | None
    tokens: int

    @property
    def gc_id(self) -> str:
        """The id of the collection."""
        return self.result.gc_id or ""

    @property
    def is_restore(self) -> bool:
        """Whether content was restored, not removed."""
        return self.result.plugin_name == RESTORE

    @property
    def is_collection(self) -> bool:
        """Whether a strategy or core collected, as opposed to an edit of another kind."""
        return self.result.plugin_name not in (RESTORE, HOST, REPAIR)

    @property
    def is_stashed(self) -> bool:
        """Whether its content is only in the stash."""
        return self.tokens == 0 and self.applied is not None and bool(self.applied.stash_keys)

    def release(self) -> None:
        """Drops the content, except for what is needed to get it from a stash.

        A restore replaced short forms at most. They stay, because no stash has them.
        """
        self.tokens = 0
        if self.applied and self.applied.stash_keys:
            self.applied.edits = [_without_content(edit) for edit in self.applied.edits]
        elif not self.is_restore:
            self.applied = None


def _without_content(edit: Edit) -> Edit:
    if edit.before is None:
        return edit
    return edit._replace(before=edit.before.with_parts(()))


class Journal:
    """The last collections, oldest first, with what undo needs of those that were applied.

    Args:
        keep: The number of collections that are kept.
        max_tokens: The number of tokens of removed content that is kept; ``None``: `KEPT_WINDOWS`
            times the window, and at least the newest collection.
    """

    def __init__(self, keep: int = KEPT_COLLECTIONS, max_tokens: int | None = None) -> None:
        self.keep = keep
        self.max_tokens = max_tokens
        self.recorded = 0
        """The number of all collections, including those that are no longer kept."""
        self.results: deque[GCResult] = deque()
        self.entries: deque[JournalEntry] = deque()
        """The collections that can be undone. Their results are in ``results``, in this order."""

    def record(self, result: GCResult) -> None:
        """Adds a collection that can't be undone."""
        self.results.append(result)
        self.recorded += 1
        self.trim(self.keep)

    def add(self, entry: JournalEntry, window: int) -> None:
        """Adds a collection, and releases the content of the oldest ones if there is too much."""
        self.entries.append(entry)
        self.record(entry.result)
        self.release_content(window)

    def release_content(self, window: int) -> None:
        """Releases the content of the oldest collections if there is too much."""
        most, releasable = self.max_tokens, list(self.entries)
        if most is None:
            most = KEPT_WINDOWS * window
            del releasable[-1:]  # the newest can be undone, however large it is
        excess = sum(entry.tokens for entry in self.entries) - most
        for oldest in releasable:
            if excess > 0 and oldest.tokens:  # the others have no content to drop
                excess -= oldest.tokens
                oldest.release()

    def trim(self, keep: int) -> None:
        """Drops the oldest collections, until no more than a number of them are left."""
        while len(self.results) > keep:
            oldest = self.results.popleft()
            if self.entries and self.entries[0].result is oldest:
                self.entries.popleft()

    def newest(self, gc_id: str | None = None) -> JournalEntry:
        """Returns the entry to undo next.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        if gc_id in [entry.gc_id for entry in self.entries][:-1]:
            newest = self.entries[-1].gc_id
            raise UndoError(
                f"{gc_id!r} is not the newest collection, {newest!r} is: undo that one first"
            )
        return self.find(gc_id)

    def find(self, gc_id: str | None = None) -> JournalEntry:
        """Returns an applied collection, by default the newest.

        Raises:
            UndoError: There is none, or its content is no longer kept.
        """
        if gc_id is None and not self.entries:
            raise UndoError(f"there is no collection to undo{self._what_helps}")
        found = [entry for entry in self.entries if gc_id in (None, entry.gc_id)]
        if not found:
            raise self._not_undoable(gc_id or "")
        entry = found[-1]
        if entry.applied is None:
            raise UndoError(
                f"the content of {entry.gc_id!r} is no longer kept: raise journal_tokens or use a "
                "stash"
            )
        if entry.applied.forgotten:
            raise UndoError(
                f"content of {entry.gc_id!r} was forgotten: it can't be undone any more"
            )
        return entry

    def _not_undoable(self, gc_id: str) -> UndoError:
        for result in self.results:
            if result.gc_id == gc_id:
                why = "was undone already" if "undone" in result.details else "changed nothing"
                return UndoError(f"{gc_id!r} {why}: see get_gc_history()")
        return UndoError(f"there is no collection {gc_id!r}{self._what_helps}")

    @property
    def _what_helps(self) -> str:
        if not self.kept_note:
            return ""
        return (
            f": {self.kept_note}. Give GCSession a larger keep_collections, or restore older "
            "messages from a stash with restore_stashed(keys, at='tail')"
        )

    @property
    def kept_note(self) -> str:
        """How many collections are kept, for errors; empty if all are."""
        if self.recorded == len(self.results):
            return ""
        return f"of {self.recorded} collections, the last {len(self.results)} are kept"
