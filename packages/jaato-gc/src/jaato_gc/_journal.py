"""What was collected, so that it can be shown and undone."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_

from jaato_gc._errors import UndoError
from jaato_gc._ledger import BookedEntry
from jaato_gc._messages import Message
from jaato_gc._results import GCResult
from jaato_gc._tokens import TokenCounter, count_tokens

DEFAULT_JOURNAL_TOKENS = 2_000_000

RESTORE = "restore"
"""Stands for the strategy in the account of content that came back."""


@dataclass(slots=True)
class GCPlan:
    """A collection that was worked out but not applied yet.

    Apply it with `GCSession.apply`, at any time: what was appended since is kept behind it.

    Args:
        gc_id: Its key in the journal, once applied.
        before: The history that it was worked out for.
        after: What would remain of that.
        result: The account of it.
        seconds: How long that took.
    """

    gc_id: str
    before: list[Message]
    after: list[Message]
    result: GCResult
    seconds: float = field(default=0.0, compare=False)

    @property
    def changes_nothing(self) -> bool:
        return len(self.before) == len(self.after) and all(map(is_, self.before, self.after))


@dataclass(slots=True)
class Change:
    """The difference between two histories, enough to go back.

    Args:
        positions: Where, in the history before, each message stood that went or was replaced.
        gone: Those messages.
        ids: Their ids.
        come: Messages that stand in the history after and not in the one before.
        length: How long the history after is.
        fingerprint: What tells it from others.
        reports: How often the provider had reported its own figure until then.
        keys: What the messages that went are kept under in a stash, if all of them are: then they
            need not be held here.
    """

    positions: list[int] = field(default_factory=list)
    gone: list[Message] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    come: list[Message] = field(default_factory=list)
    length: int = 0
    fingerprint: int = 0
    reports: int = 0
    keys: list[str] = field(default_factory=list)

    @property
    def is_stashed(self) -> bool:
        """Whether the messages that went are only in the stash any more."""
        return bool(self.keys) and not self.gone

    @classmethod
    def between(
        cls,
        before: Sequence[Message],
        after: Sequence[Message],
        counter: TokenCounter,
        reports: int,
    ) -> "Change":
        kept, had = set(map(id, after)), set(map(id, before))
        change = cls(
            come=[message for message in after if id(message) not in had],
            length=len(after),
            fingerprint=_fingerprint(after, counter),
            reports=reports,
        )
        for position, message in enumerate(before):
            if id(message) not in kept:
                change.positions.append(position)
                change.gone.append(message)
                change.ids.append(message.message_id)
        return change

    def revert(self, history: Sequence[Message], counter: TokenCounter) -> list[Message]:
        """The history before, from the one after and whatever was appended to it.

        Raises:
            UndoError: More was done to it than appending.
        """
        if _fingerprint(history[: self.length], counter) != self.fingerprint:
            raise UndoError("the history was repaired since: there is no place to put it back to")
        came = {message.message_id for message in self.come}
        kept = iter([message for message in history if message.message_id not in came])
        gone = dict(zip(self.positions, self.gone, strict=True))
        return list(_merge(kept, gone))


def _fingerprint(history: Sequence[Message], counter: TokenCounter) -> int:
    count_tokens(history, counter)  # so that every message knows its figure by this counter
    ids = "\n".join([message.message_id for message in history])
    figures = [message._tokens for message in history]
    return zlib.crc32(f"{ids} {figures}".encode(errors="replace"))


def _merge(kept: Iterator[Message], gone: dict[int, Message]) -> Iterator[Message]:
    position = 0
    for message in kept:
        while position in gone:
            yield gone[position]
            position += 1
        yield message
        position += 1
    while position in gone:
        yield gone[position]
        position += 1


@dataclass(slots=True)
class JournalEntry:
    """One applied collection.

    ``change`` is ``None`` when its content is no longer kept.
    """

    result: GCResult
    change: Change | None
    touched: list[BookedEntry]
    tokens: int

    @property
    def gc_id(self) -> str:
        return self.result.gc_id or ""

    @property
    def is_restore(self) -> bool:
        """Whether content came back, rather than went."""
        return self.result.plugin_name == RESTORE

    def let_go(self) -> None:
        """Hold its content no longer; what is needed to get it from a stash stays.

        What a restore took are short forms at most: they stay, since no stash holds them.
        """
        self.tokens = 0
        if self.change and self.change.keys:
            self.change.gone = []
        elif not self.is_restore:
            self.change, self.touched = None, []


class Journal:
    """The applied collections, oldest first, with their content up to a limit in tokens."""

    def __init__(self, max_tokens: int = DEFAULT_JOURNAL_TOKENS) -> None:
        self.max_tokens = max_tokens
        self.entries: list[JournalEntry] = []
        self._tokens = 0
        self._first_kept = 0

    def add(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        self._tokens += entry.tokens
        while self._tokens > self.max_tokens and self._first_kept < len(self.entries):
            oldest = self.entries[self._first_kept]
            self._tokens -= oldest.tokens
            oldest.let_go()
            self._first_kept += 1

    def newest(self, gc_id: str | None = None) -> JournalEntry:
        """The entry to undo next.

        Raises:
            UndoError: There is none, it is not the one asked for, or its content is gone.
        """
        if not self.entries:
            raise UndoError("there is no collection to undo")
        entry = self.entries[-1]
        if gc_id is not None and gc_id != entry.gc_id:
            raise UndoError(
                f"{gc_id!r} is not the newest collection, {entry.gc_id!r} is: undo that one first"
            )
        if entry.change is None:
            raise UndoError(
                f"the content of {entry.gc_id!r} is no longer kept: the journal holds "
                f"{self.max_tokens} tokens; raise journal_tokens or use a stash"
            )
        return entry

    def pop(self) -> None:
        entry = self.entries.pop()
        self._tokens -= entry.tokens
        self._first_kept = min(self._first_kept, len(self.entries))
