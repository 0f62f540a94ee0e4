"""Reads the answer of a plugin that returns a history, as edits.

Such a plugin works on copies and never sees the draft. Its answer is not believed: messages are
matched to the session's own, and everything is rejected that is not a removal, a shorter form or a
new user text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from reprlib import repr as shown
from typing import Any

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting import Draft, GCOutcome, Outcome, is_user_text, with_shorter_values
from jaato_gc.collecting.outcome import removal_list_is_true
from jaato_gc.collecting.results import GCRemovalItem
from jaato_gc.errors import MessageError
from jaato_gc.history import (
    ACTIONS,
    KEEPING,
    Edit,
    Group,
    Hold,
    SourceRemoval,
    Violation,
    apply_edits,
    edits_between,
    without_displaced,
)
from jaato_gc.messages import (
    Message,
    Role,
    SyntheticKind,
    is_notice,
    plain_id,
    plain_json,
    plain_message,
    plain_text,
    serialised,
)
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import message_tokens

_KNOWN_HOLDS = (
    None,
    Hold.LOCKED,
    Hold.PINNED,
    Hold.OPEN_CALL,
    Hold.NEWEST_USER,
    Hold.FIRST_USER,
    Hold.RECENT,
)
"""Why messages stay, as far as a plugin can know from budget, configuration and history."""
_SUMMARIES = (SyntheticKind.SUMMARY, SyntheticKind.LEDGER)


class RejectedError(Exception):
    """The answer of a strategy is invalid."""


class FailedError(Exception):
    """The strategy reported a failure."""


def adopt_answer(
    answer: Any, draft: Draft, given: Sequence[Message], *, takes_budget: bool
) -> None:
    """Adds the answer of a strategy to a draft, as edits.

    Args:
        answer: What ``collect`` returned.
        draft: The draft that it was asked for.
        given: The copies of the history that the strategy was given.
        takes_budget: Whether it knows pins and policies. If not, what it must keep is put back.

    Raises:
        RejectedError: It is not an answer, or it does more than removing and shortening.
        FailedError: It says that the strategy failed.
    """
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise RejectedError(f"expected (history, result), collect returned {shown(answer)}")
    history, result = answer
    details, notification = _details(result), _text_field(result, "notification")
    if not _succeeded(result):
        raise FailedError(_text_field(result, "error") or "it gave no reason")
    items = [_removal_item(item) for item in _field(result, "removal_list", list) or ()]
    if not isinstance(history, list | tuple):
        raise RejectedError(f"expected a list of messages, got {shown(history)}")
    matched = _match(history, draft, given, is_summary="summary_tokens" in details)
    wanted = edits_between(draft.history, matched)
    put_back = _put_back(wanted, draft, takes_budget=takes_budget)
    edits = _without(wanted, put_back)
    own = [item for item in items if item.source is InstructionSource.CONVERSATION]
    own, violation = _with_message_ids(own, edits, put_back, draft)
    if takes_budget and items and violation:
        raise RejectedError(str(violation))
    beside = [
        SourceRemoval(item.source, item.child_key, 0, item.reason)
        for item in items
        if item.source is not InstructionSource.CONVERSATION
    ]
    draft.take_back(draft.copies)  # the strategy planned without them
    edits += _removals_of_displaced(edits, draft)
    draft.adopt([*_accounted(edits, own, draft), *beside])
    draft.details.update(details)
    draft.notification = notification


def copies_of(history: Iterable[Message]) -> list[Message]:
    """Returns copies of messages for a strategy, with their token counts."""
    copies = [copy(message) for message in history]
    for message in copies:
        object.__setattr__(message, "parts", tuple(map(copy, message.parts)))
    return copies


# --- the result: read by attribute, because other hosts have classes of their own ---


def _field(result: Any, name: str, kind: type) -> Any:
    value = getattr(result, name, None)
    if value is not None and not isinstance(value, kind):
        raise RejectedError(f"the result has {name}={shown(value)}, expected {kind.__name__}")
    return value


def _text_field(result: Any, name: str) -> str | None:
    value = _field(result, name, str)
    with _rejecting(f"the result has an invalid {name}"):
        return None if value is None else plain_text(value)


def _details(result: Any) -> dict[str, Any]:
    details = _field(result, "details", dict)
    with _rejecting("the result has invalid details"):
        return dict(plain_json(details or {}))


@contextmanager
def _rejecting(what: str) -> Iterator[None]:
    """Rejects the answer if a value in it is invalid."""
    try:
        yield
    except (MessageError, TypeError, ValueError, AttributeError) as error:
        raise RejectedError(f"{what}: {error}") from error


def _succeeded(result: Any) -> bool:
    success = getattr(result, "success", None)
    if success is None:
        raise RejectedError(f"expected a result with success, got {shown(result)}")
    outcome = getattr(result, "outcome", None)
    with _rejecting("the result has an unknown outcome"):
        return bool(success) and (outcome is None or GCOutcome(_value(outcome)).is_success)


def _value(member: Any) -> Any:
    """Returns the value of an enum member, also of an enum that is not ours."""
    return getattr(member, "value", member)


def _removal_item(item: Any) -> GCRemovalItem:
    with _rejecting(f"the removal list has an invalid item {shown(item)}"):
        key = getattr(item, "child_key", None)
        ids = getattr(item, "message_ids", None) or ()
        if not isinstance(ids, list | tuple):
            raise TypeError(f"expected a list of message ids, got {shown(ids)}")
        return GCRemovalItem(
            InstructionSource(_value(item.source)),
            None if key is None else plain_id(key),
            0,
            plain_text(getattr(item, "reason", "")),
            list(map(plain_id, ids)),
            ACTIONS.get(str(getattr(item, "action", "")), "remove"),
            bool(getattr(item, "stash", True)),
        )


# --- the history: matched to the session's own messages ---


def _match(
    history: Sequence[Any], draft: Draft, given: Sequence[Message], *, is_summary: bool
) -> list[Message]:
    """Returns the returned history in the session's own messages and valid new ones.

    Messages are matched by id. One with an unknown id matches the next unmatched message with the
    same role and parts.
    """
    own = {message.message_id: message for message in draft.history}
    untouched = dict(zip(map(id, given), draft.history, strict=True))
    returned = [(message, _id_of(message)) for message in history]
    named = {message_id for _, message_id in returned}
    by_content: dict[str, list[Message]] = {}
    if not named <= own.keys():
        for message in reversed(draft.history):
            if message.message_id not in named:
                by_content.setdefault(_content(message), []).append(message)
    matched: list[Message] = []
    for message, message_id in returned:
        with _rejecting("the history has an invalid message"):
            if id(message) in untouched:
                matched.append(untouched[id(message)])
            elif message_id in own:
                matched.append(_form_of(own[message_id], message, draft))
            elif same := by_content.get(_content(message)):
                matched.append(same.pop())
            else:
                matched.append(_new_message(message, is_summary))
    for message_id, times in Counter(message.message_id for message in matched).items():
        if times > 1:
            raise RejectedError(f"message {message_id!r} is in the history twice")
    return matched


def _id_of(message: Any) -> str:
    if not isinstance(message, Message):
        raise RejectedError(f"expected a message in the history, got {shown(message)}")
    with _rejecting("a message in the history has an invalid id"):
        return plain_id(message.message_id)


def _content(message: Message) -> str:
    """Returns role and parts in their serialised form, which no ``__eq__`` can falsify."""
    return serialised(Message(message.role, message.parts, "any"))


def _form_of(own: Message, returned: Message, draft: Draft) -> Message:
    """Returns the session's own message if the returned one is equal, else the shorter form."""
    if serialised(returned) == serialised(own):
        return own
    new = plain_message(returned)
    if is_notice(own) and is_notice(new):
        return _new_message(new, is_summary=False)  # a notice is replaced, not shortened
    counter = draft.counter
    form = with_shorter_values(own, new, counter)
    if message_tokens(form, counter) >= message_tokens(own, counter):
        raise RejectedError(f"message {own.message_id!r} was changed: it is not shorter")
    return form


def _new_message(message: Message, is_summary: bool) -> Message:
    new = plain_message(message)
    if not is_user_text(new):
        raise RejectedError(
            f"message {new.message_id!r} is new: only a user message of text can be added"
        )
    if new.synthetic is not None:
        return new
    kind = SyntheticKind.SUMMARY if is_summary else SyntheticKind.NOTICE
    return replace(new, synthetic=kind)


def _put_back(edits: Sequence[Edit], draft: Draft, *, takes_budget: bool) -> set[str]:
    """Returns the messages that the strategy changed and should have left.

    A strategy without a ``budget`` argument can't know locks and pins: everything held is restored,
    and summaries and ledgers. Others know what `_KNOWN_HOLDS` says, but not which calls are the
    last ones.
    """
    moved = {edit.message_id for edit in edits if edit.before is None}  # rejected later
    changed = {edit.message_id for edit in edits} - moved
    removed = {edit.message_id for edit in edits if edit.after is None} - moved
    unknown = (group for group in draft.groups if group.hold not in _KNOWN_HOLDS)
    put_back = changed & _ids([*draft.last_calls, *unknown])
    if takes_budget:
        return put_back
    put_back |= changed & _ids(
        group for group in draft.groups if group.hold or group.messages[0].synthetic in _SUMMARIES
    )
    left = apply_edits(draft.history, _without(edits, put_back))
    first = next((message for message in left if message.role is not Role.SYSTEM), None)
    if first is None or first.role is Role.USER:
        return put_back
    opening = None
    for message in draft.history:
        if message.message_id == first.message_id:
            break
        if message.opens_turn or (opening is None and message.role is Role.USER):
            opening = message.message_id  # a notice, if no request precedes it
    return put_back | (removed & {opening})


def _removals_of_displaced(edits: Sequence[Edit], draft: Draft) -> list[Edit]:
    """Returns the edits that remove what keeps its place, if others change what is beside it."""
    after = apply_edits(draft.history, edits)
    left = set(map(id, without_displaced(draft.history, after)))
    return [
        Edit(draft.positions[message.message_id], message, None)
        for message in after
        if id(message) not in left
    ]


def _without(edits: Iterable[Edit], message_ids: set[str]) -> list[Edit]:
    return [edit for edit in edits if edit.message_id not in message_ids]


def _ids(groups: Iterable[Group]) -> set[str]:
    return {message.message_id for group in groups for message in group.messages}


# --- the account: the strategy's own keys and reasons, as far as it gives them ---


def _with_message_ids(
    items: Sequence[GCRemovalItem], edits: Sequence[Edit], put_back: set[str], draft: Draft
) -> tuple[list[GCRemovalItem], Violation | None]:
    """Returns items with the messages they cover, also if they name only a turn or an entry.

    ``turn_8`` is a key of the budget, which is never used again, or the ninth turn of the history.
    A strategy means one of the two in its whole list: the budget's, if the list is true then.

    Returns:
        The items, and the first thing that is false about them.
    """
    outcome = Outcome.of(draft, edits)
    changed = {edit.message_id for edit in edits if edit.before is not None}
    by_entry = partial(_ids_in_entry, draft.budget)
    by_turn = {turn.key: [each.message_id for each in turn.messages] for turn in draft.turns}.get
    readings = []
    for first, second in ((by_entry, by_turn), (by_turn, by_entry)):
        covered = []
        for item in items:
            ids: Iterable[str] = item.message_ids
            if not ids and item.child_key is not None:
                meant = first(item.child_key) or second(item.child_key) or []
                ids = [message_id for message_id in meant if message_id in changed] or meant
            ids = [message_id for message_id in ids if message_id not in put_back]
            covered.append(replace(item, message_ids=ids))
        violation = next(removal_list_is_true(outcome, covered), None)
        if violation is None:
            return covered, None
        readings.append((covered, violation))
    return readings[0]


def _ids_in_entry(budget: InstructionBudget | None, key: str) -> list[str]:
    entry = budget.get_child(InstructionSource.CONVERSATION, key) if budget else None
    booked = entry.walk() if entry else ()
    return [message_id for each in booked for message_id in each.message_ids]


def _accounted(edits: Sequence[Edit], items: Iterable[GCRemovalItem], draft: Draft) -> list[Edit]:
    """Returns the edits under the keys and reasons of the removal list; else under their turns."""
    named = {message_id: item for item in reversed(list(items)) for message_id in item.message_ids}
    turn_keys = {message.message_id: turn.key for turn in draft.turns for message in turn.messages}
    accounted = []
    for edit in edits:
        if edit.before is not None and not is_notice(edit.before):
            message_id = edit.message_id
            item = named.get(message_id, GCRemovalItem(InstructionSource.CONVERSATION))
            key = item.child_key or turn_keys.get(message_id, message_id)
            reason = item.reason or "collected"
            action = item.action
            if (action in KEEPING) != (edit.after is not None):
                action = "shorten" if edit.after else "remove"
            edit = edit._replace(key=key, reason=reason, action=action, stash=item.stash)
        accounted.append(edit)
    return accounted
