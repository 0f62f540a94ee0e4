"""Restoring removed content from the journal and the stash."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Literal, NamedTuple

from jaato_gc.collecting import without_shortenable
from jaato_gc.errors import GCError, MessageError, NotConfiguredError, StashError, UndoError
from jaato_gc.history import Edit, edits_between, lay_out, new_violations
from jaato_gc.messages import Message, Role, SyntheticKind, fenced, seal, stash_key
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import AppliedEdits, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.stash import Stash
from jaato_gc.tokens import message_tokens, render

Place = Literal["place", "tail"]
"""Where content is restored: at its old place, or in one message at the end."""


class Restoration(NamedTuple):
    """How stashed messages return to a history.

    Attributes:
        before: The history.
        edits: The edits that restore them.
        message_ids: The ids of all messages that return.
        places: The places of messages in the whole session, by id.
    """

    before: list[Message]
    edits: list[Edit]
    message_ids: list[str]
    places: dict[str, int]


class Recovery:
    """Finds removed content, and the edits that restore it.

    Args:
        live: The history.
        journal: The applied collections.
        stash: The stash, if there is one.
    """

    def __init__(self, live: LiveHistory, journal: Journal, stash: Stash | None) -> None:
        self._live = live
        self._journal = journal
        self._stash = stash

    def complete(self, entry: JournalEntry) -> AppliedEdits | None:
        """Returns the edits of a collection with their content, from the stash if necessary.

        Raises:
            UndoError: The stash does not have the content, or not unchanged.
        """
        applied = entry.applied
        if applied is None or not applied.is_released:
            return applied
        if self._stash is None:
            raise UndoError("its content is in a stash: give that stash to the session")
        ids = [message.message_id for message in applied.removed]
        keys = [applied.stash_keys[message_id] for message_id in ids]
        try:
            messages = dict(zip(ids, _read(self._stash, keys), strict=True))
        except StashError as error:
            raise UndoError(f"its content can't be read from the stash: {error}") from error
        for message_id, key in zip(ids, keys, strict=True):
            if stash_key(messages[message_id]) != key:
                raise UndoError(f"the content under {key!r} in the stash was redacted")
        edits = [
            edit._replace(before=messages[edit.before.message_id]) if edit.before else edit
            for edit in applied.edits
        ]
        return replace(applied, edits=edits, is_released=False)

    def removed_by(self, gc_id: str | None) -> list[Message]:
        """Returns the messages in the removal list of a collection, as they were before it.

        Args:
            gc_id: The id of the collection; ``None`` for the newest one.

        Raises:
            UndoError: There is no such collection, or its content is no longer kept.
        """
        if any(each.gc_id == gc_id and not each.removal_list for each in self._journal.results):
            return []
        entry = self._journal.find(gc_id)
        applied = self.complete(entry)
        listed = {each for item in entry.result.removal_list for each in item.message_ids}
        left = applied.removed if applied else []
        return [message for message in left if message.message_id in listed]

    def edits_to_restore(self, keys: Sequence[str], at: Place) -> Restoration:
        """Returns the edits that restore stashed messages.

        Raises:
            NotConfiguredError: There is no stash.
            StashError: The stash does not have them.
            GCError: There is no place for them.
        """
        if self._stash is None:
            raise NotConfiguredError(
                "there is no stash to restore from: give one to GCSession(stash=…)"
            )
        if not keys:
            raise GCError("there is nothing to restore: name at least one key")
        wanted: dict[str, Message] = {}
        for message in _read(self._stash, keys):
            known = wanted.get(message.message_id, message)
            wanted[message.message_id] = self._larger(known, message)
        before = list(self._live.messages)
        places: dict[str, int] = {}
        if at == "tail":
            after = [*before, _recalled(wanted.values())]
        else:
            placed = self._in_place(before, wanted)
            after = [message for _, message in placed]
            places = {message.message_id: place for place, message in placed}
        if faults := new_violations(before, after):
            raise GCError(f"it can't be restored there: {faults[0]}")
        edits = edits_between(before, after)
        restored = list(wanted)
        if at == "place":  # with the call or the results that belong to them
            returned = (edit.after.message_id for edit in edits if edit.after)
            restored = list(dict.fromkeys([*restored, *returned]))
        return Restoration(before, edits, restored, places)

    def _in_place(
        self, before: list[Message], wanted: dict[str, Message]
    ) -> list[tuple[int, Message]]:
        """Returns the history with messages at their old places, and the place of each message."""
        placed: list[tuple[int, Message]] = []
        number = -1
        for message in before:
            back = wanted.get(message.message_id, message)
            if back is not message and without_shortenable(back) != without_shortenable(message):
                raise self._no_place(message.message_id)  # another message has its id
            # A synthetic message has no place: it stays where it is.
            number = max(number, self._live.places.get(message.message_id, -1))
            placed.append((number, self._larger(message, back)))
        present = {message.message_id for message in before}
        for exchange, old_places in self._exchanges(wanted.keys() - present):
            place = None
            for message in exchange:
                place = old_places.get(message.message_id, place)
                if place is None:
                    raise self._no_place(message.message_id)
                if message.message_id not in present:
                    placed.append((place, wanted.get(message.message_id, message)))
        return sorted(placed, key=itemgetter(0))

    def _larger(self, message: Message, other: Message) -> Message:
        """Returns the larger one of two forms of a message."""
        counter = self._live.budget.counter
        is_larger = message_tokens(other, counter) > message_tokens(message, counter)
        return other if is_larger else message

    def _exchanges(
        self, message_ids: set[str]
    ) -> Iterator[tuple[Sequence[Message], Mapping[str, int]]]:
        """Returns removed messages with the call or the results that belong to each, and places."""
        missing = set(message_ids)
        for entry in reversed(self._journal.entries):
            if entry.applied is None:
                continue
            ids = {message.message_id for message in entry.applied.removed}
            ids -= {message.message_id for message in entry.applied.added}
            if missing.isdisjoint(ids):
                continue
            try:
                applied = self.complete(entry)
            except UndoError as error:  # nothing is undone here
                raise StashError(f"collection {entry.gc_id!r}: {error}") from error
            if applied is None:
                continue
            removed = [message for message in applied.removed if message.message_id in ids]
            for group in lay_out(removed).groups:
                names = {message.message_id for message in group.messages}
                if not missing.isdisjoint(names):
                    missing -= names
                    yield group.messages, applied.places
        if missing:
            raise self._no_place(min(missing))

    def _no_place(self, message_id: str) -> GCError:
        kept = self._journal.kept_note
        why = f" ({kept})" if kept else ""
        return GCError(
            f"message {message_id!r} has no place in this session{why}: restore it with at='tail'"
        )


def _read(stash: Stash, keys: Sequence[str]) -> list[Message]:
    """Returns messages from the stash, read-only like all messages of a session."""
    messages = stash.restore(keys)
    for message in messages:
        try:
            seal(message)
        except MessageError as error:
            raise StashError(f"the stash returned an invalid message: {error}") from error
    return messages


def _recalled(messages: Iterable[Message]) -> Message:
    return Message.from_text(
        Role.USER,
        fenced(SyntheticKind.RECALL, render(messages)),
        synthetic=SyntheticKind.RECALL,
    )
