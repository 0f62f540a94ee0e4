"""Edits that the host asks for: removing and replacing messages."""

from dataclasses import replace
from typing import NamedTuple

from jaato_gc.errors import MessageError
from jaato_gc.history import (
    Edit,
    apply_edits,
    edits_between,
    lay_out,
    new_violations,
    without_displaced,
)
from jaato_gc.messages import SYSTEM, Message, seal
from jaato_gc.policies import GCPolicy
from jaato_gc.session.live_history import LiveHistory


class Protection(NamedTuple):
    """Why a message may only be changed by force, and the call that helps."""

    name: str
    remedy: str


def edits_to_remove(live: LiveHistory, message_id: str, *, force: bool) -> list[Edit]:
    """Returns the edits that remove a message with all that can't stay without it.

    That is the call or the results that belong to it, and what keeps its place beside them.

    Raises:
        MessageError: There is no such message, it is LOCKED or pinned, or providers would refuse
            the history without it.
    """
    for group in lay_out(live.messages).groups:
        ids = {message.message_id for message in group.messages}
        if message_id in ids:
            left = [message for message in live.messages if message.message_id not in ids]
            edits = [
                edit._replace(key=message_id, reason="removed_by_host")
                for edit in edits_between(live.messages, without_displaced(live.messages, left))
            ]
            for edit in edits:
                if edit.before and not force:
                    _check_is_free(live, edit.before)
            return _checked(live, edits)
    raise MessageError(f"there is no message {message_id!r}")


def edits_to_replace(
    live: LiveHistory, message_id: str, message: Message, *, force: bool
) -> list[Edit]:
    """Returns the edits that replace a message by another with the same role and calls.

    Raises:
        MessageError: There is no such message, it is LOCKED or pinned, or the other one has another
            role or other calls.
    """
    ids = [message.message_id for message in live.messages]
    if message_id not in ids:
        raise MessageError(f"there is no message {message_id!r}")
    position = ids.index(message_id)
    own = live.messages[position]
    if not force:
        _check_is_free(live, own)
    seal(message)
    if message.role is not own.role or message.synthetic is not own.synthetic:
        raise MessageError(f"message {message_id!r} has role {own.role!s}, not {message.role!s}")
    if _calls(message) != _calls(own):
        raise MessageError(f"message {message_id!r} must keep the ids of its calls and results")
    new = replace(
        message,
        message_id=message_id,
        policy=message.policy or own.policy,
        bonds=own.bonds,
        keeps_place=own.keeps_place,
    )
    return _checked(live, [Edit(position, own, new, message_id, "replaced_by_host", "shorten")])


def _calls(message: Message) -> list[tuple[str, str | None, str]]:
    calls = [("call", call.id, call.name) for call in message.function_calls]
    results = [("result", result.call_id, result.name) for result in message.function_responses]
    return calls + results


def protection_of(live: LiveHistory, message: Message) -> Protection | None:
    """Returns what protects a message from being removed or changed; ``None`` if nothing does."""
    message_id, entry = message.message_id, live.budget.entry_of(message.message_id)
    if message_id in live.budget.pinned_message_ids:
        return Protection("pinned", f"call session.unpin({message_id!r})")
    if entry and entry.binding_policy() is GCPolicy.LOCKED:
        calls = f"session.replace({message_id!r}, …) or session.remove({message_id!r})"
        return Protection("LOCKED", f"call {calls} with force=True")
    return None


def _check_is_free(live: LiveHistory, message: Message) -> None:
    if protection := protection_of(live, message):
        hint = "unpin it, or give force=True" if protection.name == "pinned" else "give force=True"
        raise MessageError(f"message {message.message_id!r} is {protection.name}: {hint}")


def _checked(live: LiveHistory, edits: list[Edit]) -> list[Edit]:
    after = apply_edits(live.messages, edits)
    if all(message.role is SYSTEM for message in after):
        return edits  # as at the beginning: there is nothing to send yet
    if faults := new_violations(live.messages, after):
        raise MessageError(f"providers would refuse the history after that: {faults[0]}")
    return edits
