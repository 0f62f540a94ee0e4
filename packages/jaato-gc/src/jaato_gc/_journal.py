"""What was collected, so that it can be shown and undone."""

from dataclasses import dataclass, field

from jaato_gc._change import Change
from jaato_gc._errors import UndoError
from jaato_gc._ledger import BookedEntry
from jaato_gc._messages import Message
from jaato_gc._results import GCResult

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
        change: What of the one is not in the other.
        seconds: How long that took.
    """

    gc_id: str
    before: list[Message]
    after: list[Message]
    result: GCResult
    change: Change = field(default_factory=Change)
    seconds: float = field(default=0.0, compare=False)

    @property
    def changes_nothing(self) -> bool:
        return not (self.change.gone or self.change.come)


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
