"""The stash that users see."""

import copy
import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection

from jaato_gc import (
    Message,
    StashEntry,
    StashError,
    StashHit,
    StashStats,
    stash_key,
)
from jaato_gc_stash._forms import Form, readable, to_form, to_message
from jaato_gc_stash._limits import Limits
from jaato_gc_stash._namespace import Namespace, delete_unused
from jaato_gc_stash._opening import open_database
from jaato_gc_stash._snippets import snippet
from jaato_gc_stash._words import words_to_find


class SqlStash:
    """A `jaato_gc.Stash` in an SQLite file or a PostgreSQL database.

    What is put is kept when `put` returns, whatever happens to the process. The same content is
    stored once. It can be used from several threads, and by several processes at once.

    Args:
        url: A path, ``sqlite:///path`` or ``postgresql://user:password@host/database``. What is
            not there yet is made: the file, its folder and the tables.
        project: Whose agents. Projects never see each other's content.
        agent: Whose content is put, counted, limited and forgotten here.
        also_read: Names of other agents of the project whose content can be read here, too, but
            not changed. There is no name for all of them.
        max_age: How long content is kept, as a ``timedelta`` or in seconds; ``None``: for ever.
        max_bytes: How much of this agent is kept; ``None``: everything.
        redact: Gets a copy of each message, and returns it without what must not be stored. The
            key stays that of the original.
        clock: Gives the time, in seconds since the epoch.

    Both limits are enforced with each `put`, the oldest content first. What a `put` brings is
    never removed by it, even if it is larger than ``max_bytes`` alone.

    Raises:
        StashError: The database can't be used.
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
        if isinstance(max_age, timedelta):
            max_age = max_age.total_seconds()
        for name, limit in (("max_age", max_age), ("max_bytes", max_bytes)):
            if limit is not None and limit <= 0:
                raise StashError(f"{name} of the stash is {limit}: give a number above 0, or None")
        self._limits = Limits(max_age, max_bytes)
        self._redact = redact
        self._clock = clock
        self._database = open_database(url)

    @property
    def project(self) -> str:
        """Whose agents."""
        return self._namespace.project

    @property
    def agent(self) -> str:
        """Whose content."""
        return self._namespace.agent

    @property
    def also_read(self) -> tuple[str, ...]:
        """The other agents whose content can be read here."""
        return self._namespace.also_read

    def for_agent(self, agent: str, also_read: Iterable[str] = ()) -> "SqlStash":
        """The stash of another agent of the project, with the same limits and connections.

        Args:
            agent: Its name.
            also_read: Whose content it can read beside its own.
        """
        other = copy.copy(self)
        other._namespace = _namespace(self.project, agent, also_read)
        return other

    def __repr__(self) -> str:
        return f"<SqlStash of {self._namespace.name} in {self._database.place}>"

    # --- the protocol ---

    def put(self, gc_id: str, messages: Sequence[Message]) -> list[str]:
        """Keep messages: all, or none and an error. Returns their keys.

        What is kept already is kept once, as of now.
        """
        keys = [_key(message) for message in messages]
        forms = {key: self._form(message) for key, message in zip(keys, messages, strict=True)}
        if not _is_storable(gc_id):
            raise StashError(f"the collection's id {gc_id!a} can't be stored: it is no plain text")

        def work(connection: Connection) -> None:
            now = self._clock()
            database, namespace = self._database, self._namespace
            loose = namespace.put(connection, database, forms, gc_id, now)
            surplus = self._limits.surplus(connection, namespace.own, now, forms.keys())
            loose |= namespace.delete(connection, surplus)
            delete_unused(connection, database, loose)

        if forms:
            self._database.write(f"store {len(forms)} messages", work, lock=self._namespace.name)
        return keys

    def get(self, key: str) -> StashEntry | None:
        """What is kept under a key, if anything is."""
        return self._entries([key]).get(key)

    def restore(self, keys: Sequence[str]) -> list[Message]:
        """The messages under some keys, in that order; an error that names those not kept."""
        found = self._entries(keys)
        if missing := [key for key in dict.fromkeys(keys) if key not in found]:
            raise StashError(
                f"{self._database.place} holds nothing for agent {self.agent!r} under "
                f"{', '.join(missing)}: it was never stored, evicted or forgotten"
            )
        # Each a message of its own, even if a key is asked for twice.
        seen: set[str] = set()
        messages = []
        for key in keys:
            message = found[key].message
            messages.append(copy.deepcopy(message) if key in seen else message)
            seen.add(key)
        return messages

    def search(self, query: str, limit: int = 10) -> list[StashHit]:
        """The entries that fit some words best, best first. Any text is a valid query.

        Any of the words is enough, more are better, rare ones weigh more, and newer content is
        preferred: the score is the database's relevance times ``1 + 1 / (1 + age in days)``.
        """
        words = words_to_find(query)
        if not words or limit < 1:
            return []
        with self._database.reading("search") as connection:
            rows = self._namespace.search(
                # Agents can share a key, of which one is shown.
                connection, self._database, words, limit * len(self._namespace.readers),
                self._clock(),
            )  # fmt: skip
            best: dict[str, Any] = {}
            for row in rows:
                best.setdefault(row.key, row)
            hits = list(best.values())[:limit]
            stored = self._namespace.rows(connection, [row.key for row in hits])
        return [
            StashHit(
                row.key,
                row.about,
                snippet((readable(each.body) for each in stored[row.key] if each.body), words),
                float(row.score),
                row.stashed_at,
            )
            for row in hits
            if row.key in stored  # gone meanwhile
        ]

    def forget(self, keys: Iterable[str] | None = None) -> int:
        """Delete what this agent has under some keys, or everything; returns how many it had."""
        wanted = None if keys is None else {key for key in keys if _is_storable(key)}

        def work(connection: Connection) -> int:
            ids = self._namespace.ids(connection, wanted)
            loose = self._namespace.delete(connection, ids)
            delete_unused(connection, self._database, loose)
            return len(ids)

        return self._database.write("forget", work, lock=self._namespace.name)

    def stats(self) -> StashStats:
        """How much is kept of this agent. The size includes what frames each message."""
        with self._database.reading("count") as connection:
            return self._namespace.stats(connection)

    # --- closing ---

    def close(self) -> None:
        """Close the connections, which other agents' views share; happens by itself in the end."""
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

    def _form(self, message: Message) -> Form:
        if self._redact is None:
            return to_form(message)
        try:
            # A copy: the history is not redacted.
            redacted = self._redact(copy.deepcopy(message))
        except Exception as error:
            raise StashError(
                f"redact failed on message {message.message_id!a}: {type(error).__name__}: {error};"
                " nothing was stored"
            ) from error
        if not isinstance(redacted, Message):
            raise StashError(
                f"redact returned {type(redacted).__name__} for message {message.message_id!a}, "
                "not a Message; nothing was stored"
            )
        return to_form(redacted)

    def _entries(self, keys: Iterable[str]) -> dict[str, StashEntry]:
        with self._database.reading("read") as connection:
            rows = self._namespace.rows(connection, filter(_is_storable, keys))
        found = {}
        for key, parts in rows.items():
            first = parts[0]
            bodies = [row.body for row in parts if row.body is not None]
            message = to_message(first.frame, bodies)
            found[key] = StashEntry(key, message, first.gc_id, first.stashed_at)
        return found


def _namespace(project: str, agent: str, also_read: Iterable[str]) -> Namespace:
    others = (also_read,) if isinstance(also_read, str) else tuple(also_read)
    for what, name in (
        ("project", project),
        ("agent", agent),
        *(("agent", each) for each in others),
    ):
        if not name or not _is_storable(name):
            raise StashError(f"{name!a} can't be the name of a stash's {what}")
    return Namespace(project, agent, tuple(each for each in dict.fromkeys(others) if each != agent))


def _key(message: Message) -> str:
    try:
        return stash_key(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise StashError(
            f"message {message.message_id!a} can't be stashed, since it is no JSON: {error}; "
            "nothing was stored"
        ) from error


def _is_storable(text: str) -> bool:
    """Whether databases take a text as such: none takes lone surrogates, and PostgreSQL no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
