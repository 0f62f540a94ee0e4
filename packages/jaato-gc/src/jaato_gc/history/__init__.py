"""Histories: pairing of calls and results, groups and turns, validity, repair and edits."""

from jaato_gc.history.edits import (
    Edit,
    EditAction,
    SourceRemoval,
    apply_edits,
    edits_between,
    in_order,
    inverse,
    moved_to,
)
from jaato_gc.history.invariants import (
    FastCheck,
    Violation,
    check_history,
    new_violations,
    opens_with_user,
    proved_violations,
    unproved_violations,
)
from jaato_gc.history.layout import (
    Group,
    Hold,
    Layout,
    Turn,
    flatten_turns,
    get_preserved_indices,
    lay_out,
    split_into_turns,
    turn_starts,
)
from jaato_gc.history.pairing import pair_calls
from jaato_gc.history.repair import ensure_tool_call_integrity, repair_history

__all__ = [
    "Edit",
    "EditAction",
    "FastCheck",
    "Group",
    "Hold",
    "Layout",
    "SourceRemoval",
    "Turn",
    "Violation",
    "apply_edits",
    "check_history",
    "edits_between",
    "ensure_tool_call_integrity",
    "flatten_turns",
    "get_preserved_indices",
    "in_order",
    "inverse",
    "lay_out",
    "moved_to",
    "new_violations",
    "opens_with_user",
    "pair_calls",
    "proved_violations",
    "repair_history",
    "split_into_turns",
    "turn_starts",
    "unproved_violations",
]
