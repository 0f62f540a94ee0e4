"""Where removed content goes, so that it can come back."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaato_gc._message_codec import message_to_dict
from jaato_gc._messages import Message


@dataclass(frozen=True, slots=True)
class StashEntry:
    """One stashed message.

    Args:
        key: What to ask for it by: `stash_key` of the message as it was removed.
        message: The message.
        gc_id: The collection that removed it.
        stashed_at: When, in seconds since the epoch.
    """

    key: str
    message: Message
    gc_id: str
    stashed_at: float


@dataclass(frozen=True, slots=True)
class StashHit:
    """One finding of a search.

    Args:
        key: What to ask for the whole message by.
        about: What it is, in a few words: its role, and the tools that it names.
        snippet: The words around the best match.
        score: How well it fits, the newer the better; higher is better, and only comparable within
            one search.
        stashed_at: When it was stashed, in seconds since the epoch.
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
        entries: Stashed messages.
        contents: Different contents among them: what several share is stored once.
        bytes: Size of those contents.
        oldest: When the oldest entry was stashed, in seconds since the epoch.
        newest: When the newest one was.
    """

    entries: int
    contents: int
    bytes: int
    oldest: float | None = None
    newest: float | None = None


@runtime_checkable
class Stash(Protocol):
    """A place for what collections remove.

    The session writes to it before it removes or clears anything; if that fails, nothing is
    removed. Whatever can't be done is a `StashError`.
    """

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Keep messages that a collection is about to remove or clear: all, or none and an error.

        Returns the key of each, which is its `stash_key`: stubs name it before this is called.
        Once this returns, they are kept, whatever happens to the process.
        """
        ...

    def get(self, key: str) -> StashEntry | None:
        """What is kept under a key, if anything is."""
        ...

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """The entries that fit some words best, best first. Any text is a valid query."""
        ...

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """The messages under some keys, in that order; an error that names those not kept."""
        ...

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Delete what is under some keys, or everything; returns how many entries there were."""
        ...

    def stats(self) -> StashStats:
        """How much is kept."""
        ...


def stash_key(message: Message) -> str:
    """The key of a message: 16 characters that its content and id alone decide."""
    text = json.dumps(message_to_dict(message), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
