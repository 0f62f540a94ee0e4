"""What the journal keeps of one collection, in memory and in a saved session.

Most of a saved session is the journal, so it is kept small: default values are left out, and so are
the parts of an edit that are in the result already.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from jaato_gc.budget import BookedEntry
from jaato_gc.collecting import GCResult
from jaato_gc.errors import GCError
from jaato_gc.history import Edit
from jaato_gc.messages import Message, SavedMessage, message_to_dict, seal
from jaato_gc.saved import SAVED, Count, Flag, Saved

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


@dataclass(frozen=True)
class JournalEntry:
    """A collection in the journal.

    Args:
        result: Its result.
        state: Whether it changed the history, and still does.
        applied: Its edits; ``None`` if its content is not kept.
    """

    result: GCResult
    state: EntryState
    applied: AppliedEdits | None

    @cached_property
    def size(self) -> int:
        """The bytes that it takes in a saved session, with the comma after it."""
        return 1 + len(json.dumps(entry_to_dict(self), default=repr, separators=(",", ":")))

    @property
    def gc_id(self) -> str:
        """The id of the collection."""
        return self.result.gc_id or ""

    @property
    def is_collection(self) -> bool:
        """Whether a strategy or core collected, as opposed to an edit of another kind."""
        return self.result.plugin_name not in (RESTORE, HOST, REPAIR)

    @property
    def is_stashed(self) -> bool:
        """Whether the stash has its content, or there is none."""
        applied = self.applied
        return applied is not None and bool(applied.stash_keys or not applied.removed)

    @property
    def has_content(self) -> bool:
        """Whether there is content that `released` drops.

        A restore replaced short forms at most. They stay, because no stash has them.
        """
        applied = self.applied
        if applied is None or applied.is_released:
            return False
        return bool(applied.removed) and (self.is_stashed or self.result.plugin_name != RESTORE)

    def released(self) -> "JournalEntry":
        """Returns the entry without content, but with what is needed to get it from a stash."""
        applied = self.applied
        if applied is None or not self.is_stashed:
            return replace(self, applied=None)
        edits = [
            edit._replace(before=edit.before.with_parts(())) if edit.before else edit
            for edit in applied.edits
        ]
        return replace(self, applied=replace(applied, edits=edits, is_released=True))


class _SavedEdit(Saved):
    position: Count
    before: SavedMessage | None = None
    after: SavedMessage | None = None

    def read_out(self) -> Edit:
        before, after = (
            read_out(message) if message else None for message in (self.before, self.after)
        )
        return Edit(self.position, before, after)


class _SavedEdits(Saved):
    """`AppliedEdits`, field by field."""

    edits: list[_SavedEdit]
    touched: list[BookedEntry]
    length: Count
    reports: Count
    places: dict[str, Count] = Field(default_factory=dict)
    stash_keys: dict[str, str] = Field(default_factory=dict)
    forgotten: Flag = False
    is_released: Flag = False


class SavedJournalEntry(Saved):
    """The strict model of what `entry_to_dict` returns."""

    result: GCResult
    state: EntryState
    applied: _SavedEdits | None

    def read_out(self) -> JournalEntry:
        """Returns the entry.

        Raises:
            GCError: An undo would restore messages that the budget or the stash does not have.
        """
        applied = None
        if self.applied:
            edits = [edit.read_out() for edit in self.applied.edits]
            applied = AppliedEdits(**{**dict(self.applied), "edits": edits})
            if not _can_be_undone(applied):
                raise GCError("its journal and its budget do not match")
        return JournalEntry(self.result.frozen(), self.state, applied)


# Messages are written by functions of ours, which pydantic must not call: it would make an error of
# its own of an interrupt in them.
_RESULTS = TypeAdapter(list[GCResult], config=SAVED)
_APPLIED = TypeAdapter(list[AppliedEdits], config=SAVED)


def entry_to_dict(entry: JournalEntry) -> dict[str, Any]:
    """Returns an entry of the journal as JSON data."""
    (result,) = _RESULTS.dump_python([entry.result], exclude_defaults=True)
    applied = None
    if entry.applied:
        without_edits = replace(entry.applied, edits=[])
        (applied,) = _APPLIED.dump_python([without_edits], exclude_defaults=True)
        applied["edits"] = [_edit_to_dict(edit) for edit in entry.applied.edits]
    return {"result": result, "state": entry.state, "applied": applied}


def read_out(saved: SavedMessage) -> Message:
    """Returns a saved message, read-only like all messages of a session."""
    message = saved.read_out()
    seal(message)
    return message


def _edit_to_dict(edit: Edit) -> dict[str, Any]:
    data: dict[str, Any] = {"position": edit.position}
    if edit.before is not None:
        data["before"] = message_to_dict(edit.before)
    if edit.after is not None:
        data["after"] = message_to_dict(edit.after)
    return data


def _can_be_undone(applied: AppliedEdits) -> bool:
    booked = {message_id for entry in applied.touched for message_id in entry.message_ids}
    removed = {message.message_id for message in applied.removed}
    has_content = not applied.is_released or removed <= applied.stash_keys.keys()
    return has_content and removed <= booked
