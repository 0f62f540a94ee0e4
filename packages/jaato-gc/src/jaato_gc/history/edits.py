"""Edits: every change of a history, with what the account, the journal and undo need of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

from jaato_gc.messages import Message, is_notice
from jaato_gc.policies import InstructionSource

RemovingAction = Literal["remove", "summarize"]
"""What happens to messages that leave the history."""
KeepingAction = Literal["shorten"]
"""What happens to messages that stay, in another form."""
EditAction = Literal[RemovingAction, KeepingAction]

ACTIONS: dict[str, EditAction] = {action: action for action in get_args(EditAction)}
"""The actions by name."""
KEEPING: frozenset[str] = frozenset(get_args(KeepingAction))
"""The actions after which a message stays."""


class Edit(NamedTuple):
    """One change at one place of a history.

    ``before`` without ``after`` removes a message, ``after`` without ``before`` inserts one, and
    both together replace one message by another form of it.

    Attributes:
        position: Where ``before`` is, or which message ``after`` is inserted before.
        before: The message that leaves the history.
        after: The message that enters it.
        key: The key of the removal list that the change is accounted under.
        reason: Why, such as ``"truncated"``.
        action: What happens to the message, for the removal list. Edits without ``key`` are not in
            it: insertions, and notices and ledgers that another one replaces.
        stash: Whether the message is stored in the stash, if there is one.
    """

    position: int
    before: Message | None
    after: Message | None
    key: str = ""
    reason: str = ""
    action: EditAction = "remove"
    stash: bool = True

    @property
    def message_id(self) -> str:
        """The id of the message that changes."""
        message = self.before or self.after
        return message.message_id if message else ""


@dataclass(frozen=True, slots=True)
class SourceRemoval:
    """The removal of something outside the history, such as tool schemas or enrichment.

    Args:
        source: The source it is booked under.
        child_key: Its key there; ``None`` means the whole source.
        tokens: The tokens it frees.
        reason: Why.
    """

    source: InstructionSource
    child_key: str | None
    tokens: int
    reason: str


_position_of = attrgetter("position")


def in_order(edits: Iterable[Edit]) -> list[Edit]:
    """Returns edits by position; insertions come before the change of the message there."""
    edits = list(edits)
    insertions = [edit for edit in edits if edit.before is None]
    if insertions:
        edits = [*insertions, *[edit for edit in edits if edit.before is not None]]
    return sorted(edits, key=_position_of)  # stable, and faster than a key of two values


def apply_edits(history: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """Returns the history after some edits, in one pass."""
    edited: list[Message] = []
    done = 0
    for edit in in_order(edits):
        edited += history[done : edit.position]
        done = edit.position + (edit.before is not None)
        if edit.after is not None:
            edited.append(edit.after)
    edited += history[done:]
    return edited


def inverse(edits: Iterable[Edit]) -> list[Edit]:
    """Returns the edits that undo some edits, with positions in the edited history."""
    inverted = []
    shift = 0
    for edit in in_order(edits):
        position = edit.position + shift
        inverted.append(edit._replace(position=position, before=edit.after, after=edit.before))
        shift += (edit.after is not None) - (edit.before is not None)
    return inverted


def moved_to(
    edits: Iterable[Edit], base: Sequence[Message], history: Sequence[Message]
) -> list[Edit] | None:
    """Returns edits of one history with their positions in a later one.

    ``None`` if a message that they change, or that they insert something before, was changed or
    removed since.
    """
    positions = {message.message_id: place for place, message in enumerate(history)}
    moved = []
    for edit in edits:
        at_end = edit.position >= len(base)
        anchor = base[-1] if at_end and base else base[edit.position] if base else None
        place = 0 if anchor is None else positions.get(anchor.message_id)
        if place is None or (anchor is not None and history[place] is not anchor):
            return None
        moved.append(edit._replace(position=place + (at_end and anchor is not None)))
    return moved


def edits_between(before: Sequence[Message], after: Sequence[Message]) -> list[Edit]:
    """Returns edits that make one history from another. Messages are matched by id.

    A message that moved is removed at one place and inserted at another. If a notice and another
    message changed their order, the notice moved.
    """
    places = {message.message_id: place for place, message in enumerate(before)}
    stay = {message.message_id for message in after}
    edits: list[Edit] = []
    done = 0
    for message in after:
        place = places.get(message.message_id, -1)
        overtakes = is_notice(message) and any(
            passed.message_id in stay for passed in before[done : max(place, done)]
        )
        if place < done or overtakes:  # new, or passed already
            edits.append(Edit(done, None, message))
            continue
        edits += _removals(before, done, place)
        if before[place] is not message:
            edits.append(Edit(place, before[place], message, action="shorten"))
        done = place + 1
    return [*edits, *_removals(before, done, len(before))]


def _removals(history: Sequence[Message], start: int, end: int) -> Iterator[Edit]:
    return (Edit(place, history[place], None) for place in range(start, end))
