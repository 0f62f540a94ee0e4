"""Plans, and the journal of applied collections that undo works from."""

from dataclasses import dataclass, field

from jaato_gc.budget import BookedEntry
from jaato_gc.collecting import GCResult
from jaato_gc.errors import UndoError
from jaato_gc.history import Edit, apply_edits
from jaato_gc.messages import Message

DEFAULT_JOURNAL_TOKENS = 2_000_000

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
        stash_keys: The keys of all messages that left the history, by id, if all are stashed.
    """

    edits: list[Edit]
    touched: list[BookedEntry]
    length: int
    reports: int
    stash_keys: dict[str, str] = field(default_factory=dict)

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
    """The applied collections, oldest first, with their content up to a number of tokens.

    Args:
        max_tokens: The number of tokens of removed content that is kept.
    """

    def __init__(self, max_tokens: int = DEFAULT_JOURNAL_TOKENS) -> None:
        self.max_tokens = max_tokens
        self.entries: list[JournalEntry] = []

    def add(self, entry: JournalEntry) -> None:
        """Adds an entry, and releases the content of the oldest ones if there is too much."""
        self.entries.append(entry)
        excess = sum(each.tokens for each in self.entries) - self.max_tokens
        for oldest in self.entries:
            if excess > 0 and oldest.tokens:  # the others have no content to drop
                excess -= oldest.tokens
                oldest.release()

    def newest(self, gc_id: str | None = None) -> JournalEntry:
        """Returns the entry to undo next.

        Raises:
            UndoError: There is none, another one is newer, or its content is no longer kept.
        """
        if not self.entries:
            raise UndoError("there is no collection to undo")
        entry = self.entries[-1]
        if gc_id is not None and gc_id != entry.gc_id:
            raise UndoError(
                f"{gc_id!r} is not the newest collection, {entry.gc_id!r} is: undo that one first"
            )
        if entry.applied is None:
            raise UndoError(
                f"the content of {entry.gc_id!r} is no longer kept: the journal keeps "
                f"{self.max_tokens} tokens; raise journal_tokens or use a stash"
            )
        return entry
