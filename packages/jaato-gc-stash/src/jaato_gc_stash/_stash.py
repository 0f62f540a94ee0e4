"""`SqlStash`, the public class of this package."""

import copy
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from jaato_gc import Message, StashError
from jaato_gc.plugin import StashEntry, StashHit, StashStats, stash_key
from jaato_gc_stash import _arguments
from jaato_gc_stash._arguments import is_storable
from jaato_gc_stash._limits import Limits
from jaato_gc_stash._namespace import Namespace, delete_unused
from jaato_gc_stash._open_database import open_database
from jaato_gc_stash._snippets import snippet
from jaato_gc_stash._stored_entry import read_entries
from jaato_gc_stash._stored_message import StoredMessage, encode, not_json
from jaato_gc_stash._words import words_to_find

logger = logging.getLogger("jaato_gc")

_MAX_HITS = 1_000_000
"""The largest number of hits. A database accepts no integer above 64 bits."""


class SqlStash:
    """A `jaato_gc.plugin.Stash` in an SQLite file or a PostgreSQL database.

    When `put` returns, its messages are stored durably. Identical content is stored once. Several
    threads and several processes can use the same stash at the same time.

    Args:
        url: A path, ``sqlite:///path`` or ``postgresql://user:password@host/database``. A missing
            file is created, with its folder; so are missing tables.
        project: The name of the project. Projects never see each other's content.
        agent: The name of the agent whose content is put, counted, limited and forgotten.
        also_read: Names of other agents of the project whose content this stash can read, but not
            change. There is no wildcard.
        max_age: How long content is kept, as a ``timedelta`` or in seconds. ``None``: forever.
        max_bytes: How much content of this agent is kept. ``None``: no limit.
        redact: A function that gets a copy of each message and returns the message to store. The
            key is that of the original message.
        clock: A function that returns the current time, in seconds since the epoch.

    Each `put` enforces both limits and deletes the oldest content first. It never deletes the
    messages that it just stored, even if they alone exceed ``max_bytes``.

    Raises:
        StashError: An argument is invalid, or the database can't be opened.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        project: str = "default",
        agent: str = "main",
        also_read: Iterable[str] = (),
        max_age: timedelta | float | None = None,
        max_bytes: int | None = None,
        redact: Callable[[Message], Message] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._namespace = _namespace(project, agent, also_read)
        self._limits = Limits(
            _arguments.seconds("max_age", max_age), _arguments.size("max_bytes", max_bytes)
        )
        self._redact = redact
        self._clock = clock
        self._database = open_database(url)

    @property
    def project(self) -> str:
        """The name of the project."""
        return self._namespace.project

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._namespace.agent

    @property
    def also_read(self) -> tuple[str, ...]:
        """The names of other agents whose content this stash can read."""
        return self._namespace.also_read

    def for_agent(self, agent: str, also_read: Iterable[str] = ()) -> "SqlStash":
        """Returns the stash of another agent in the project, with the same limits and connections.

        Args:
            agent: The name of that agent.
            also_read: Names of agents whose content it can read in addition to its own.
        """
        other = copy.copy(self)
        other._namespace = _namespace(self.project, agent, also_read)
        return other

    def __repr__(self) -> str:
        return f"<SqlStash of {self._namespace.name} in {self._database.place}>"

    # --- the Stash protocol ---

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Stores messages in one transaction, and returns their keys.

        A message that is stored already gets the new collection and the current time.

        Raises:
            StashError: The messages can't be stored. None of them is.
        """
        _arguments.storable_text("gc_id", gc_id)
        messages = _arguments.messages(messages)
        keys = [_key(message) for message in messages]
        stored = {key: self._stored(message) for key, message in zip(keys, messages, strict=True)}

        def work(connection: Connection) -> None:
            now = self._now()
            database, namespace = self._database, self._namespace
            released = namespace.put(connection, database, stored, gc_id, now)
            excess = self._limits.entries_to_delete(connection, namespace.own, now, stored.keys())
            released |= namespace.delete(connection, excess)
            delete_unused(connection, database, released)

        if stored:
            self._database.write(f"store {len(stored)} messages", work, lock=self._namespace.name)
        return keys

    def get(self, key: str) -> StashEntry | None:
        """Returns the entry under a key, or ``None``.

        Raises:
            StashError: The entry is damaged.
        """
        return self._entries([_arguments.key(key)]).get(key)

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """Returns the messages under the keys, in that order.

        Raises:
            StashError: The entries under some of the keys are missing or damaged; the error names
                them.
        """
        keys = _arguments.keys(keys)
        found = self._entries(keys)
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            raise StashError(
                f"{self._database.place} has no entry for agent {self.agent!r} under "
                f"{', '.join(missing)}: it was never stored, or it was deleted by a limit or "
                "by forget()"
            )
        # A key that occurs twice gives two independent messages.
        seen: set[str] = set()
        messages = []
        for key in keys:
            message = found[key].message
            messages.append(copy.deepcopy(message) if key in seen else message)
            seen.add(key)
        return messages

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """Returns the entries that match a query best, best first. Any text is a valid query.

        An entry matches if it has any of the query's words. More words and newer content rank
        higher: the score is the database's relevance times ``1 + 1 / (1 + age in days)``. Damaged
        entries are left out and logged.
        """
        words = words_to_find(_arguments.query(query))
        limit = min(_arguments.count("limit", limit), _MAX_HITS)
        if not words or not limit:
            return []
        with self._database.reading("search") as connection:
            rows = self._namespace.search(
                # Several agents can have an entry under the same key; one of them is returned.
                connection, self._database, words, limit * len(self._namespace.owners), self._now()
            )  # fmt: skip
            scores: dict[str, float] = {}
            for row in rows:
                scores.setdefault(row.key, row.score)
            best = list(scores)[:limit]
            found, damaged = read_entries(self._namespace.rows(connection, best))
        if damaged:  # they must not hide the others
            logger.warning("%s", self._damage(damaged))
        hits = []
        for key in best:
            if key in found:  # it may have been deleted since the search
                stored, entry = found[key]
                shown = snippet(stored.texts(), words)
                hits.append(StashHit(key, stored.about, shown, scores[key], entry.stashed_at))
        return hits

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Deletes this agent's entries under the keys, or all of them. Returns their number.

        On SQLite, no word of the deleted entries remains in the file or its write-ahead log, unless
        an entry that is kept has it too. The file is rewritten for that, which takes about a second
        per 100 MB, so pass all keys in one call. ``forget([])`` only erases what limits and
        redaction have deleted before. On PostgreSQL, the bytes of deleted rows remain until the
        tables are rewritten (``VACUUM FULL``).

        The stash can't reach the ledger and the journal of a running session: use
        `GCSession.forget` there.

        Raises:
            StashError: Nothing was deleted, or the entries were deleted but could not be erased
                yet; the error says which. Call it again.
        """
        wanted = None if keys is None else set(filter(is_storable, _arguments.keys(keys)))

        def work(connection: Connection) -> int:
            ids = self._namespace.ids(connection, wanted)
            if wanted is None or len(ids) < len(wanted):
                self._database.check_entries(connection)
            released = self._namespace.delete(connection, ids)
            delete_unused(connection, self._database, released)
            return len(ids)

        count = self._database.write("forget", work, lock=self._namespace.name)
        # Even if no entry was deleted: an earlier call may have failed to erase what it deleted.
        self._database.erase_deleted()
        return count

    def stats(self) -> StashStats:
        """Returns the number and size of this agent's entries."""
        with self._database.reading("count") as connection:
            return self._namespace.stats(connection)

    # --- closing ---

    def close(self) -> None:
        """Closes idle connections, including those shared through `for_agent`.

        Optional: connections are also closed when the stash is garbage-collected.
        """
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _stored(self, message: Message) -> StoredMessage:
        if self._redact is None:
            return encode(message)
        try:
            # A copy, so that redaction does not change the history.
            redacted = self._redact(copy.deepcopy(message))
        except Exception as error:
            raise StashError(
                f"redact failed for message {message.message_id!a}: {type(error).__name__}: "
                f"{error}; nothing was stored"
            ) from error
        if not isinstance(redacted, Message):
            raise StashError(
                f"redact for message {message.message_id!a}: expected a Message, got "
                f"{type(redacted).__name__}; nothing was stored"
            )
        return encode(redacted)

    def _now(self) -> float:
        return _arguments.timestamp(self._clock())

    def _entries(self, keys: Iterable[str]) -> dict[str, StashEntry]:
        wanted = set(filter(is_storable, keys))
        with self._database.reading("read") as connection:
            found, damaged = read_entries(self._namespace.rows(connection, wanted))
            if damaged:
                raise StashError(self._damage(damaged))
            if found.keys() < wanted:
                self._database.check_entries(connection)
        return {key: entry for key, (_, entry) in found.items()}

    def _damage(self, keys: Iterable[str]) -> str:
        return (
            f"{self._database.place} has damaged entries under {', '.join(keys)}: restore a "
            "backup, or delete them with forget(); if a newer release has written them, upgrade "
            "jaato-gc"
        )


def _namespace(project: str, agent: str, also_read: Iterable[str]) -> Namespace:
    _arguments.name("project", project)
    _arguments.name("agent", agent)
    others = dict.fromkeys(_arguments.names("also_read", also_read))
    return Namespace(project, agent, tuple(each for each in others if each != agent))


def _key(message: Message) -> str:
    try:
        return stash_key(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise not_json(message, error) from error
