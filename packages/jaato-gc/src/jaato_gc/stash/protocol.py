"""The stash: where removed content is kept, so that it can be recalled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaato_gc.messages import Message


@dataclass(frozen=True, slots=True)
class StashEntry:
    """One stashed message.

    Args:
        key: Its key: `stash_key` of the message when it was removed.
        message: The message.
        gc_id: The collection that removed it.
        stashed_at: When it was stored, in seconds since the epoch.
    """

    key: str
    message: Message
    gc_id: str
    stashed_at: float


@dataclass(frozen=True, slots=True)
class StashHit:
    """One result of a search.

    Args:
        key: The key of the whole message.
        about: A short description: its role, and the tools that it names.
        snippet: The words around the best match.
        score: How well it matches. Higher is better, newer entries score higher, and scores are
            only comparable within one search.
        stashed_at: When it was stored, in seconds since the epoch.
    """

    key: str
    about: str
    snippet: str
    score: float
    stashed_at: float


@dataclass(frozen=True, slots=True)
class StashStats:
    """How much a stash holds.

    Args:
        entries: The number of messages.
        contents: The number of different contents: equal content is stored once.
        bytes: The size of those contents.
        oldest: When the oldest entry was stored, in seconds since the epoch.
        newest: When the newest entry was stored.
    """

    entries: int
    contents: int
    bytes: int
    oldest: float | None = None
    newest: float | None = None


@runtime_checkable
class Stash(Protocol):
    """Keeps what collections remove.

    The session writes to it before it removes or shortens anything. If that fails, nothing is
    removed. Every failure is a `StashError`.
    """

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Stores messages that a collection is about to remove or shorten: all of them or none.

        Returns the key of each, which is its `stash_key`: notes name it before this is called. The
        messages are durable when this returns.
        """
        ...

    def get(self, key: str) -> StashEntry | None:
        """Returns the entry under a key; ``None`` if there is none.

        The key may be any text, also a path: models give it.
        """
        ...

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """Returns the entries that match some words, best first. Any text is a valid query.

        The limit can be any integer of 0 or more; everything else is a `StashError`.
        """
        ...

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """Returns the messages under some keys, in that order; an error names the missing keys."""
        ...

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Deletes the entries under some keys, or all. Returns the number of deleted entries.

        A stash can't reach the ledger and the journal of a running session: `GCSession.forget`
        does.
        """
        ...

    def for_agent(self, agent: str) -> "Stash":
        """Returns the stash of another agent. Neither finds what the other one stored."""
        ...

    def stats(self) -> StashStats:
        """Returns how much the stash holds."""
        ...
