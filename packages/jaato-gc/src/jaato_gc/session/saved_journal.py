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
from jaato_gc.session.journal import AppliedEdits, Journal, JournalEntry

_LATER = ConfigDict(defer_build=True)  # most processes save and restore nothing
_RESULTS = TypeAdapter(list[GCResult], config=_LATER)
_APPLIED: TypeAdapter[AppliedEdits | None] = TypeAdapter(AppliedEdits | None, config=_LATER)
_COUNT = TypeAdapter(int, config=ConfigDict(strict=True, defer_build=True))


def results_to_dict(journal: Journal) -> dict[str, Any]:
    """Returns the results of a journal as JSON data."""
    results = [_with_json_details(result) for result in journal.results]
    kept = _RESULTS.dump_python(results, exclude_defaults=True)
    return {"recorded": journal.recorded, "kept": kept}


def entries_to_list(journal: Journal) -> list[dict[str, Any]]:
    """Returns the entries of a journal as JSON data, each with the number of its collection."""
    first = journal.recorded - len(journal.results)
    numbers = {id(result): number for number, result in enumerate(journal.results, first)}
    return [
        {
            "number": numbers[id(entry.result)],
            "tokens": entry.tokens,
            "applied": entry.applied and _applied_to_dict(entry.applied),
        }
        for entry in journal.entries
    ]


def fill_journal(
    journal: Journal, results: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], window: int
) -> None:
    """Fills an empty journal from JSON data, as far as its limits allow.

    Args:
        journal: The journal.
        results: The return value of `results_to_dict`.
        entries: The return value of `entries_to_list`.
        window: The model's window.

    Raises:
        GCError: An undo would restore messages that the budget does not have.
    """
    kept = _RESULTS.validate_python(results["kept"])
    journal.recorded = _COUNT.validate_python(results["recorded"])
    journal.results.extend(kept)
    by_number = dict(enumerate(kept, journal.recorded - len(kept)))
    for entry in entries:
        applied = _APPLIED.validate_python(entry["applied"] and _with_edits(entry["applied"]))
        if applied and not _can_be_undone(applied):
            raise GCError("its journal and its budget do not match")
        tokens = _COUNT.validate_python(entry["tokens"])
        journal.entries.append(JournalEntry(by_number.pop(entry["number"]), applied, tokens))
    journal.trim(journal.keep)
    journal.release_content(window)


def read_message(data: Mapping[str, Any]) -> Message:
    """Returns a saved message, read-only like all messages of a session."""
    message = message_from_dict(data)
    seal(message)
    return message


def _can_be_undone(applied: AppliedEdits) -> bool:
    booked = {each for entry in applied.touched for each in entry.message_ids}
    return all(message.message_id in booked for message in applied.removed) and all(
        edit.position >= 0 for edit in applied.edits
    )


def _with_json_details(result: GCResult) -> GCResult:
    try:
        details = json.dumps(result.details, default=repr, skipkeys=True)
    except Exception:  # cycles, absurd depth, a broken __repr__
        types = {key: str(type(value)) for key, value in result.details.items()}
        details = json.dumps(types, skipkeys=True)
    return replace(result, details=json.loads(details))


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
