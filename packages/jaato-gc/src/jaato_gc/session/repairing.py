"""Repairs a session's history, without touching anything that is LOCKED or pinned."""

from collections.abc import Callable, Sequence

from jaato_gc.errors import InvalidHistoryError
from jaato_gc.history import Edit, Violation, edits_between, repair_history
from jaato_gc.messages import Message
from jaato_gc.session.host_edits import protection_of
from jaato_gc.session.live_history import LiveHistory, faults_of

Repair = Callable[[Sequence[Message]], list[Message]]
"""Returns the messages of a history in which less is wrong. Messages keep their ids."""

MAX_LISTED = 3
"""The number of violations that an error text lists."""


def edits_to_repair(live: LiveHistory, repair: Repair = repair_history) -> list[Edit]:
    """Returns the edits that make the history valid. Messages that only move have no key.

    Args:
        live: The history.
        repair: Returns the repaired messages.

    Raises:
        InvalidHistoryError: It would still be invalid, or a LOCKED or pinned message would be
            removed or changed.
    """
    repaired = repair(live.messages)
    if faults := faults_of(repaired):
        raise invalid_history(faults)
    kept = set(map(id, repaired))
    edits = edits_between(live.messages, repaired)
    for place, edit in enumerate(edits):
        message = edit.before
        if message is None or id(message) in kept:
            continue
        if protection := protection_of(live, message):
            verb = "remove" if edit.after is None else "change"
            raise invalid_history(
                faults_of(live.messages),
                f"repair would have to {verb} message {message.message_id!r}, which is "
                f"{protection.name}: {protection.remedy}",
            )
        edits[place] = edit._replace(key=message.message_id, reason="repaired")
    return edits


def invalid_history(faults: Sequence[Violation], *hints: str) -> InvalidHistoryError:
    """Returns the error for a history that can't be sent."""
    listed = "; ".join([*map(str, faults[:MAX_LISTED]), *hints])
    return InvalidHistoryError(f"the history can't be sent: {listed}", list(faults))
