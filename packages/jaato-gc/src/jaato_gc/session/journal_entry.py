"""What the journal keeps of one collection."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from jaato_gc.budget import BookedEntry
from jaato_gc.collecting import GCResult
from jaato_gc.history import Edit
from jaato_gc.messages import Message

RESTORE = "restore"
"""The plugin name in the result of `GCSession.restore_stashed`."""
HOST = "host"
"""The plugin name in the result of `GCSession.remove` and `GCSession.replace`."""
REPAIR = "repair"
"""The plugin name in the result of a repair."""

EntryState = Literal["unchanged", "applied", "undone"]


@dataclass(frozen=True, slots=True)
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
        is_released: Whether the content of the edits is only in the stash.
    """

    edits: list[Edit]
    touched: list[BookedEntry]
    length: int
    reports: int
    places: dict[str, int] = field(default_factory=dict)
    stash_keys: dict[str, str] = field(default_factory=dict)
    forgotten: bool = False
    is_released: bool = False

    @property
    def removed(self) -> list[Message]:
        """The messages that left the history, in their order."""
        return [edit.before for edit in self.edits if edit.before is not None]

    @property
    def added(self) -> list[Message]:
        """The messages that entered the history, in their order."""
        return [edit.after for edit in self.edits if edit.after is not None]

    def stashed_under(self, keys: Mapping[str, str]) -> "AppliedEdits":
        """Returns these edits with the keys of the stash, if it has all removed messages."""
        if all(message.message_id in keys for message in self.removed):
            return replace(self, stash_keys=dict(keys))
        return self

    def released(self) -> "AppliedEdits":
        """Returns these edits without content that the stash has."""
        edits = [_without_content(edit) for edit in self.edits]
        return replace(self, edits=edits, is_released=True)


def _without_content(edit: Edit) -> Edit:
    if edit.before is None:
        return edit
    return edit._replace(before=edit.before.with_parts(()))


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A collection in the journal.

    Args:
        result: Its result.
        state: Whether it changed the history, and still does.
        applied: Its edits; ``None`` if its content is not kept.
        size: The bytes that it takes in a saved session, set by the journal.
    """

    result: GCResult
    state: EntryState = "unchanged"
    applied: AppliedEdits | None = None
    size: int = 0

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
        """Whether the stash has its content, or there is none."""
        return self.applied is not None and bool(
            self.applied.stash_keys or not self.applied.removed
        )

    @property
    def has_content(self) -> bool:
        """Whether there is content that `released` drops.

        A restore replaced short forms at most. They stay, because no stash has them.
        """
        applied = self.applied
        if applied is None or applied.is_released:
            return False
        return bool(applied.removed) and (self.is_stashed or not self.is_restore)

    def released(self) -> "JournalEntry":
        """Returns the entry without content, but with what is needed to get it from a stash."""
        applied = self.applied
        kept = applied.released() if applied and self.is_stashed else None
        return replace(self, applied=kept)

    def undone(self) -> "JournalEntry":
        """Returns the entry after an undo."""
        return replace(self, state="undone", applied=None)
