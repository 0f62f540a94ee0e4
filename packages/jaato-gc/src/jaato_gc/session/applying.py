"""Applying and undoing edits: history, budget and journal change together, in one commit.

Everything that can fail happens before the commit: positions are found again, the edited history is
made, and the budget is booked on a copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_

from jaato_gc.collecting import GCRemovalItem, GCResult
from jaato_gc.commit import Commit
from jaato_gc.errors import StalePlanError, UndoError
from jaato_gc.frozen import FrozenList
from jaato_gc.history import (
    Edit,
    apply_edits,
    displaced,
    in_order,
    inverse,
    lay_out,
    moved_to,
    new_violations,
)
from jaato_gc.messages import Message
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import AppliedEdits, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.tokens import count_tokens, message_tokens


def apply(
    live: LiveHistory,
    journal: Journal,
    commit: Commit,
    result: GCResult,
    edits: Sequence[Edit],
    base: Sequence[Message],
    *,
    keys: Mapping[str, str],
    dropped_tokens: int = 0,
    places: Mapping[str, int] | None = None,
) -> GCResult:
    """Applies edits and journals them. The lock must be held. Returns the final result.

    Args:
        live: The history and its budget.
        journal: The last collections.
        commit: What else changes with them.
        result: The result so far.
        edits: The edits.
        base: The history that their positions refer to.
        keys: The keys of removed messages in the stash, by message id.
        dropped_tokens: Tokens that were dropped outside of the history before this.
        places: The places of messages that are restored, by id; ``None``: messages are new.

    Raises:
        StalePlanError: A message that they change was changed or removed since.
    """
    total = live.budget.total_tokens()
    created_by = result.plugin_name if places is None else None
    applied, total_after = prepare_edits(live, commit, edits, base, created_by, places)
    result = replace(
        result,
        tokens_before=total + dropped_tokens,
        tokens_after=total_after,
        removal_list=_with_stash_keys(result.removal_list, keys),
    ).frozen()
    entry = JournalEntry(result, "applied", applied.stashed_under(keys))
    if entry.is_collection:
        commit.assign(live.budget, collections=live.budget.collections + 1)
    journal.record(commit, entry)
    live.guard.commit(commit)
    return result


def prepare_edits(
    live: LiveHistory,
    commit: Commit,
    edits: Sequence[Edit],
    base: Sequence[Message],
    created_by: str | None,
    places: Mapping[str, int] | None = None,
) -> tuple[AppliedEdits, int]:
    """Prepares edits that were made for an earlier state of the history.

    Returns what is needed to undo them, and the tokens of the context after them.

    Args:
        live: The history.
        commit: The change that they belong to.
        edits: The edits.
        base: The history that their positions refer to.
        created_by: The strategy that made new messages; ``None``: they are restored.
        places: The places of messages that are restored, by id.

    Raises:
        StalePlanError: A message that they change was changed or removed since.
    """
    edits, messages = _edited(live, edits, base)
    booking = live.booking.copy()
    touched = booking.apply(edits, created_by)
    # Edits of a plan were checked when it was made.
    is_checked = live.is_certainly_valid and created_by is not None
    left = _prepare_messages(live, commit, edits, messages, places or {}, is_checked=is_checked)
    live.booking.replace(commit, booking)
    commit.assign(live, uncertain_tokens=live.uncertain_tokens + _tokens_of(edits, live))
    # What was appended since the plan follows the edited part.
    length = min(len(base), len(live.messages)) + len(messages) - len(live.messages)
    applied = AppliedEdits(edits, touched, length, live.reports, left)
    return applied, booking.budget.total_tokens()


def prepare_undo(
    live: LiveHistory, commit: Commit, applied: AppliedEdits, *, is_collection: bool
) -> None:
    """Prepares the undo of edits. Messages that were appended since stay at the end.

    Args:
        live: The history.
        commit: The change that it belongs to.
        applied: The edits.
        is_collection: Whether a collection made them, which messages survived.

    Raises:
        UndoError: A message that would come back was appended again meanwhile, or the history was
            changed since.
    """
    added = {message.message_id for message in applied.added}
    for message in applied.removed:
        taken = live.budget.entry_of(message.message_id) is not None
        if taken and message.message_id not in added:
            raise UndoError(f"message {message.message_id!r} is in the history again")
    undoing = inverse(applied.edits)
    for edit in undoing:
        there = live.messages[edit.position : edit.position + 1]
        if edit.before and (not there or there[0].message_id != edit.before.message_id):
            raise UndoError("the history was changed since: positions no longer match")
    restored = apply_edits(live.messages, undoing)
    counter = live.budget.counter
    counted = {message.message_id: message_tokens(message, counter) for message in restored}
    booking = live.booking.copy()
    booking.revert(applied.touched, applied.edits, counted)
    if not booking.holds(counted):
        raise UndoError("its journal and its budget do not match: the session was damaged")
    if is_collection:
        booking.budget.forget_collection()
    _prepare_messages(live, commit, undoing, restored, applied.places, is_checked=False)
    live.booking.replace(commit, booking)
    moved = _tokens_of(undoing, live)
    if applied.reports == live.reports:  # no newer report of the provider
        moved = -moved
    commit.assign(live, uncertain_tokens=max(0, live.uncertain_tokens + moved))


def _prepare_messages(
    live: LiveHistory,
    commit: Commit,
    edits: Sequence[Edit],
    messages: list[Message],
    returning: Mapping[str, int],
    *,
    is_checked: bool,
) -> dict[str, int]:
    """Prepares the edited history. Returns the places of the messages that leave."""
    before = {edit.before.message_id for edit in edits if edit.before}
    after = {edit.after.message_id for edit in edits if edit.after}
    places = dict(live.places)
    places |= {
        message_id: returning[message_id] for message_id in (after - before) & returning.keys()
    }
    left = {message_id: places.pop(message_id) for message_id in (before - after) & places.keys()}
    opened = sum(edit.after.opens_turn for edit in edits if edit.after)
    closed = sum(edit.before.opens_turn for edit in edits if edit.before)
    live.prepare_messages(commit, messages, is_checked=is_checked)
    commit.assign(live, places=places, turns=live.turns + opened - closed)
    return left


def check_plan(live: LiveHistory, edits: Sequence[Edit], base: Sequence[Message]) -> None:
    """Checks that the edits of a plan could be applied now. The lock must be held.

    Raises:
        StalePlanError: A message that they change was changed, pinned or removed since.
    """
    _edited(live, edits, base)
    pinned = live.budget.pinned_message_ids
    if not pinned:
        return
    kept = set()  # a pin keeps the whole group, and the messages beside one that keeps its place
    for group in lay_out(live.messages).groups:
        if any(message.message_id in pinned for message in group.messages):
            kept |= {message.message_id for message in group.messages} | set(group.neighbours)
    for edit in edits:
        if edit.before and edit.message_id in kept:
            raise StalePlanError(f"message {edit.message_id!r} was pinned since: make a new plan")


def _edited(
    live: LiveHistory, edits: Sequence[Edit], base: Sequence[Message]
) -> tuple[list[Edit], list[Message]]:
    """Returns edits with their positions in the current history, and the edited history."""
    messages = live.messages
    has_moved = len(base) > len(messages) or not all(map(is_, base, messages))
    moved = moved_to(edits, base, messages) if has_moved else edits
    if moved is None:
        raise StalePlanError(
            "a message that the plan changes was changed or removed since: make a new plan"
        )
    edits = in_order(moved)
    replaced = {edit.before.message_id for edit in edits if edit.before}
    for edit in edits:
        new_id = edit.after.message_id if edit.after else None
        if new_id and new_id not in replaced and live.budget.entry_of(new_id):
            raise StalePlanError(f"the id {new_id!r} is taken: make a new plan")
    edited = apply_edits(messages, edits)
    if has_moved and (faults := new_violations(messages, edited)):
        raise StalePlanError(f"the history was changed since: {faults[0]}; make a new plan")
    if has_moved and (lost := displaced(messages, edited)):
        raise StalePlanError(
            f"message {lost[0].message_id!r} keeps its place and was added since: make a new plan"
        )
    return edits, edited


def _tokens_of(edits: Sequence[Edit], live: LiveHistory) -> int:
    """Returns the tokens of everything that edits add or remove."""
    messages = [message for edit in edits for message in (edit.before, edit.after) if message]
    return count_tokens(messages, live.budget.counter)


def _with_stash_keys(
    items: Sequence[GCRemovalItem], keys: Mapping[str, str]
) -> list[GCRemovalItem]:
    if not keys:
        return list(items)
    return [
        replace(item, stash_keys=FrozenList(keys[id_] for id_ in item.message_ids if id_ in keys))
        for item in items
    ]
