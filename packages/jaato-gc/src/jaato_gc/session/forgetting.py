"""Forgetting removed content for good: in the stash, the journal and the ledger."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jaato_gc.collecting import without_messages
from jaato_gc.commit import Commit, guarded
from jaato_gc.history import Edit
from jaato_gc.messages import LEDGER_ID, Message, is_ledger, stash_key
from jaato_gc.session.applying import prepare_edits
from jaato_gc.session.journal import Journal
from jaato_gc.session.journal_entry import HOST, JournalEntry
from jaato_gc.session.live_history import LiveHistory
from jaato_gc.stash import Stash, StashEntry, asking, entry_in, store_in
from jaato_gc.tokens import TokenCounter, message_tokens


def forget(live: LiveHistory, journal: Journal, keys: Iterable[str]) -> int:
    """Forgets the messages under some keys. Returns the number of deleted entries of the stash.

    The stash comes first: if it fails, the session is unchanged, and the call can be repeated. It
    may take long, so it is asked without the lock. The session follows as soon as nothing is left
    to forget in the stash: the host may remove messages meanwhile.

    Args:
        live: The history.
        journal: The last collections, with the stash.
        keys: The keys.

    Raises:
        NotConfiguredError: There is no stash.
        StashError: The stash failed.
    """
    stash = journal.required_stash("forget in")
    keys = frozenset(keys)
    cleaner = _Cleaner(_ids_under(keys, journal, stash), live.budget.counter)
    forgotten, done = 0, _Left(frozenset(), frozenset())
    while left := _forget_in_session(live, journal, cleaner, keys, done):
        for key in left.ledgers:
            if stored := entry_in(stash, key):
                cleaner.add_stashed(stored)
        for stored, ledger in cleaner.stashed.values():
            store_in(stash, stored.gc_id, [ledger])  # an undo may need it
        with asking("forget messages"):
            stash.forget(cleaner.stashed)
            forgotten += stash.forget(left.keys)
        done = _Left(done.keys | left.keys, done.ledgers | left.ledgers)
    return forgotten


class _Left(NamedTuple):
    """What is left to forget in the stash: messages, and ledgers that may list them."""

    keys: Set[str]
    ledgers: Set[str]


@guarded
def _forget_in_session(
    live: LiveHistory, journal: Journal, cleaner: "_Cleaner", keys: Set[str], done: _Left
) -> _Left | None:
    """Forgets in journal and history. If anything is left in the stash, it returns that instead."""
    # All forms of the messages are forgotten: whole ones and shortened ones.
    keys |= {key for message_id, key in _removed(journal) if message_id in cleaner.ids}
    left = _Left(keys - done.keys, set(journal.stashed_ledgers) - done.ledgers)
    if any(left):
        return left
    commit = Commit()
    ledgers = [*map(cleaner.new_key, journal.stashed_ledgers)]
    entries = tuple(map(cleaner.clean, journal.entries))
    commit.assign(journal, entries=entries, stashed_ledgers=ledgers)
    edits = [
        Edit(position, message, ledger)
        for position, message in enumerate(live.messages)
        if (ledger := cleaner.cleaned(message)) is not message
    ]
    if edits:
        prepare_edits(live, commit, edits, live.messages, HOST)
    live.guard.commit(commit)
    return None


def _ids_under(keys: Set[str], journal: Journal, stash: Stash) -> set[str]:
    """Returns the ids of the messages under some keys, even if the stash lost them."""
    found = {key: entry.message.message_id for key in keys if (entry := entry_in(stash, key))}
    lost = keys - found.keys()
    return {*found.values(), *(message_id for message_id, key in _removed(journal) if key in lost)}


def _removed(journal: Journal) -> Iterator[tuple[str, str]]:
    """Yields ids and keys of the messages that collections removed."""
    for entry in journal.entries:
        if entry.applied and entry.applied.stash_keys:
            yield from entry.applied.stash_keys.items()
        elif entry.applied:  # some were not stored there
            for message in entry.applied.removed:
                yield message.message_id, stash_key(message)


@dataclass(slots=True)
class _Cleaner:
    """Removes the content of some messages. Nothing is changed in place.

    Args:
        ids: The ids of the messages.
        counter: Counts the tokens.
        stashed: Ledgers in the stash that list the content, each with a cleaned one, by key.
    """

    ids: Set[str]
    counter: TokenCounter
    stashed: dict[str, tuple[StashEntry, Message]] = field(default_factory=dict)

    def add_stashed(self, stored: StashEntry) -> None:
        """Adds a ledger in the stash, if it lists the content."""
        cleaned = self.cleaned(stored.message)
        if cleaned is not stored.message:
            self.stashed[stored.key] = stored, cleaned

    def new_key(self, key: str) -> str:
        """Returns the key of a ledger in the stash once it is cleaned."""
        return stash_key(self.stashed[key][1]) if key in self.stashed else key

    def cleaned(self, message: Message) -> Message:
        """Returns a ledger without the entries from the messages; another message unchanged."""
        return without_messages(message, self.ids) if is_ledger(message) else message

    def clean(self, entry: JournalEntry) -> JournalEntry:
        """Returns a journal entry without the content of the messages."""
        applied = entry.applied
        if applied is None:
            return entry
        edits, touched = [], applied.touched
        keys = {
            message_id: key
            for message_id, key in applied.stash_keys.items()
            if message_id not in self.ids
        }
        for edit in applied.edits:
            if edit.message_id in self.ids:
                continue
            before, after = edit.before, edit.after and self.cleaned(edit.after)
            if before and is_ledger(before):
                before = self.cleaned(before)
                if before is not edit.before:
                    tokens = message_tokens(before, self.counter)
                    touched = [
                        replace(booked, tokens=tokens) if booked.key == LEDGER_ID else booked
                        for booked in touched
                    ]
            edits.append(edit._replace(before=before, after=after))
        if LEDGER_ID in keys:
            keys[LEDGER_ID] = self.new_key(keys[LEDGER_ID])
        applied = replace(
            applied,
            edits=edits,
            touched=touched,
            stash_keys=keys,
            forgotten=applied.forgotten or len(edits) < len(applied.edits),
        )
        return replace(entry, applied=applied)
