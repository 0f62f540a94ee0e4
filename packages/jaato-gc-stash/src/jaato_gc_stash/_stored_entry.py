"""One entry as it is stored, with a checksum that detects damage.

SQLite does not detect most changes of a file that it did not make itself: a row with a changed byte
is read without an error.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jaato_gc.plugin import StashEntry
from jaato_gc_stash._stored_message import decode, searchable_text


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """The columns of an entry, and the contents of its parts.

    Args:
        project: The name of the project.
        agent: The name of the agent.
        key: The key of the message.
        gc_id: The collection that removed the message.
        stashed_at: When it was stored, in seconds since the epoch.
        about: A short description of the message.
        frame: The message without its contents.
        bodies: One content per part.
    """

    project: str
    agent: str
    key: str
    gc_id: str
    stashed_at: float
    about: str
    frame: bytes
    bodies: Sequence[bytes]

    @classmethod
    def from_rows(cls, rows: Sequence[Any]) -> Self:
        """Returns the entry that has the rows, one per part.

        Raises:
            ValueError: The rows are not as they were written.
        """
        row = rows[0]
        bodies = [each.body for each in rows if each.body is not None]
        entry = cls(
            row.project, row.agent, row.key, row.gc_id, row.stashed_at, row.about, row.frame, bodies
        )
        try:
            is_intact = entry.checksum() == row.checksum
        except TypeError:  # a damaged row can have values of any type
            is_intact = False
        if not is_intact:
            raise ValueError("the checksum does not match")
        return entry

    def checksum(self) -> str:
        """Returns a hash of all fields."""
        names = [self.project, self.agent, self.key, self.gc_id, self.stashed_at, self.about]
        total = hashlib.blake2b(json.dumps(names).encode(), digest_size=16)
        for data in (self.frame, *self.bodies):
            total.update(hashlib.blake2b(data).digest())
        return total.hexdigest()

    def decoded(self) -> StashEntry:
        """Returns the entry with its message.

        Raises:
            ValueError: A release with another format has written it.
        """
        message = decode(self.frame, self.bodies)
        return StashEntry(self.key, message, self.gc_id, self.stashed_at)

    def texts(self) -> list[str]:
        """Returns the text of each content, to search and to show."""
        return [searchable_text(body) for body in self.bodies]


def read_entries(
    rows: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, tuple[StoredEntry, StashEntry]], list[str]]:
    """Returns the entries that can be read, in both forms, and the keys of the others.

    Args:
        rows: The rows of each entry, by key.
    """
    found = {}
    damaged = []
    for key, each in rows.items():
        try:
            stored = StoredEntry.from_rows(each)
            found[key] = (stored, stored.decoded())
        except ValueError:
            damaged.append(key)
    return found, damaged
