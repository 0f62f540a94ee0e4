"""Finds out where stashed messages return to in the history, and what returns with them."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Literal, NamedTuple

from jaato_gc.collecting import without_shortenable
from jaato_gc.errors import GCError, StashError, UndoError
from jaato_gc.history import Edit, edits_between, has_place, lay_out, new_violations
from jaato_gc.messages import Message, Role, SyntheticKind, fenced
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import AppliedEdits, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.tokens import TokenCounter, message_tokens, render

Place = Literal["place", "tail"]
"""Where content is restored: at its old place, or in one message at the end."""


class Restoration(NamedTuple):
    """How stashed messages return to a history.

    Attributes:
        edits: The edits that restore them.
        message_ids: The ids of all messages that return.
        places: The places in the whole session by message id; ``None`` if they return at the end.
    """

    edits: list[Edit]
    message_ids: list[str]
    places: dict[str, int] | None


class UnreadError(Exception):
    """The content of a collection has to be read from the stash first, without the lock."""

    def __init__(self, entry: JournalEntry) -> None:
        super().__init__(entry.gc_id)
        self.entry = entry


class ReadEntries:
    """The content of collections that was read from the stash."""

    def __init__(self) -> None:
        self._read: list[tuple[JournalEntry, AppliedEdits]] = []

    def add(self, journal: Journal, entry: JournalEntry) -> None:
        """Reads the content of a collection.

        Raises:
            StashError: The stash does not have it.
        """
        try:
            self._read.append((entry, journal.edits_of(entry)))
        except UndoError as error:  # nothing is undone here
            raise StashError(f"collection {entry.gc_id!r}: {error}") from error

    def edits_of(self, entry: JournalEntry) -> AppliedEdits:
        """Returns the edits of a collection.

        Raises:
            UnreadError: They have to be read first.
        """
        if entry.applied and not entry.applied.is_released:
            return entry.applied
        for known, applied in self._read:
            if known is entry:
                return applied
        raise UnreadError(entry)


def restoration_of(
    stored: Sequence[Message], live: LiveHistory, journal: Journal, at: Place, read: ReadEntries
) -> Restoration:
    """Returns how messages of the stash return. The lock must be held.

    Args:
        stored: The messages.
        live: The history.
        journal: The last collections.
        at: Where they return.
        read: The content of collections that was read from the stash.

    Raises:
        GCError: There is no place for them.
        UnreadError: The content of another collection is needed.
    """
    wanted: dict[str, Message] = {}
    for message in stored:
        known = wanted.get(message.message_id, message)
        wanted[message.message_id] = _larger(known, message, live.budget.counter)
    before = live.messages
    message_ids, places = list(wanted), None
    if at == "tail":
        text = fenced(SyntheticKind.RECALL, render(wanted.values()))
        after = [*before, Message.from_text(Role.USER, text, synthetic=SyntheticKind.RECALL)]
    else:
        placed = _in_place(wanted, live, journal, read)
        _check_neighbours(placed, live)
        after = [message for _, message in placed]
        places = {message.message_id: place for place, message in placed}
    if faults := new_violations(before, after):
        raise GCError(f"it can't be restored there: {faults[0]}")
    edits = edits_between(before, after)
    if at == "place":  # with the call or the results that belong to them
        returned = [edit.after.message_id for edit in edits if edit.after]
        message_ids = list(dict.fromkeys([*message_ids, *returned]))
    return Restoration(edits, message_ids, places)


def _in_place(
    wanted: Mapping[str, Message], live: LiveHistory, journal: Journal, read: ReadEntries
) -> list[tuple[int, Message]]:
    """Returns the history with messages at their old places, and the place of each message."""
    placed: list[tuple[int, Message]] = []
    number = -1
    for message in live.messages:
        back = wanted.get(message.message_id, message)
        if back is not message and without_shortenable(back) != without_shortenable(message):
            raise _no_place(message.message_id, journal)  # another message has its id
        # A synthetic message has no place: it stays where it is.
        number = max(number, live.places.get(message.message_id, -1))
        placed.append((number, _larger(message, back, live.budget.counter)))
    present = {message.message_id for message in live.messages}
    for exchange, old_places in _exchanges(wanted.keys() - present, journal, read):
        place = None
        for message in exchange:
            place = old_places.get(message.message_id, place)
            if place is None:
                raise _no_place(message.message_id, journal)
            if message.message_id not in present:
                placed.append((place, wanted.get(message.message_id, message)))
    return sorted(placed, key=itemgetter(0))


def _check_neighbours(placed: Sequence[tuple[int, Message]], live: LiveHistory) -> None:
    """Checks that a message that keeps its place returns between those that it was between.

    Raises:
        GCError: One of them is not there.
    """
    present = {message.message_id for message in live.messages}
    for at, (place, message) in enumerate(placed):
        if has_place(message) and message.message_id not in present:
            around = [number for number, _ in (*placed[:at][-1:], *placed[at + 1 : at + 2])]
            if around not in ([place - 1, place + 1], [place - 1]):
                raise GCError(
                    f"message {message.message_id!r} keeps its place, and a message beside it was "
                    "removed: restore that one too, or restore it with at='tail'"
                )


def _exchanges(
    missing: set[str], journal: Journal, read: ReadEntries
) -> Iterator[tuple[Sequence[Message], Mapping[str, int]]]:
    """Yields removed messages with the call or the results that belong to each, and places."""
    for entry in reversed(journal.entries):
        if entry.applied is None:
            continue
        ids = {message.message_id for message in entry.applied.removed}
        ids -= {message.message_id for message in entry.applied.added}
        if missing.isdisjoint(ids):
            continue
        applied = read.edits_of(entry)
        removed = [message for message in applied.removed if message.message_id in ids]
        for group in lay_out(removed).groups:
            names = {message.message_id for message in group.messages}
            if not missing.isdisjoint(names):
                missing -= names
                yield group.messages, applied.places
    if missing:
        raise _no_place(min(missing), journal)


def _larger(message: Message, other: Message, counter: TokenCounter) -> Message:
    """Returns the larger one of two forms of a message."""
    is_larger = message_tokens(other, counter) > message_tokens(message, counter)
    return other if is_larger else message


def _no_place(message_id: str, journal: Journal) -> GCError:
    why = f" ({journal.kept_note})" if journal.kept_note else ""
    return GCError(
        f"message {message_id!r} has no place in this session{why}: restore it with at='tail'"
    )
