"""The journal of a session as JSON data.

Most of a saved session is the journal, so it is kept small: default values are left out, and so are
the parts of an edit that are in the result already.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from jaato_gc.collecting import GCResult
from jaato_gc.errors import GCError
from jaato_gc.history import Edit
from jaato_gc.messages import Message, message_from_dict, message_to_dict, seal
from jaato_gc.session.journal_entry import AppliedEdits, EntryState, JournalEntry

_LATER = ConfigDict(defer_build=True)  # most processes save and restore nothing
_RESULTS = TypeAdapter(list[GCResult], config=_LATER)
_STATE: TypeAdapter[EntryState] = TypeAdapter(EntryState, config=_LATER)
_APPLIED: TypeAdapter[AppliedEdits | None] = TypeAdapter(AppliedEdits | None, config=_LATER)


def entry_to_dict(entry: JournalEntry) -> dict[str, Any]:
    """Returns an entry of the journal as JSON data."""
    (result,) = _RESULTS.dump_python([entry.result], exclude_defaults=True)
    return {
        "result": result,
        "state": entry.state,
        "applied": entry.applied and _applied_to_dict(entry.applied),
    }


def size_of(entry: JournalEntry) -> int:
    """Returns the bytes of an entry in a saved session, with the comma after it."""
    return 1 + len(json.dumps(entry_to_dict(entry), default=repr, separators=(",", ":")))


def entries_from_list(saved: Sequence[Mapping[str, Any]]) -> list[JournalEntry]:
    """Returns the entries of a journal from JSON data.

    Raises:
        GCError: An undo would restore messages that the budget does not have.
    """
    entries = []
    for data in saved:
        applied = _APPLIED.validate_python(data["applied"] and _with_edits(data["applied"]))
        if applied and not _can_be_undone(applied):
            raise GCError("its journal and its budget do not match")
        (result,) = _RESULTS.validate_python([data["result"]])
        entries.append(
            JournalEntry(result.frozen(), _STATE.validate_python(data["state"]), applied)
        )
    return entries


def read_message(data: Mapping[str, Any]) -> Message:
    """Returns a saved message, read-only like all messages of a session."""
    message = message_from_dict(data)
    seal(message)
    return message


def _can_be_undone(applied: AppliedEdits) -> bool:
    booked = {message_id for entry in applied.touched for message_id in entry.message_ids}
    return all(message.message_id in booked for message in applied.removed) and all(
        edit.position >= 0 for edit in applied.edits
    )


def _applied_to_dict(applied: AppliedEdits) -> dict[str, Any]:
    data: dict[str, Any] = _APPLIED.dump_python(replace(applied, edits=[]), exclude_defaults=True)
    return {**data, "edits": [_edit_to_dict(edit) for edit in applied.edits]}


def _with_edits(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data, "edits": [_edit_from_dict(edit) for edit in data["edits"]]}


def _edit_to_dict(edit: Edit) -> dict[str, Any]:
    data: dict[str, Any] = {"position": edit.position}
    if edit.before is not None:
        data["before"] = message_to_dict(edit.before)
    if edit.after is not None:
        data["after"] = message_to_dict(edit.after)
    return data


def _edit_from_dict(data: Mapping[str, Any]) -> Edit:
    before, after = data.get("before"), data.get("after")
    return Edit(
        data["position"],
        read_message(before) if before else None,
        read_message(after) if after else None,
    )
