"""The SQL statements that read and write the entries of one namespace."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select, text

from jaato_gc.plugin import StashStats
from jaato_gc_stash._database import Database
from jaato_gc_stash._limits import size_of
from jaato_gc_stash._stored_entry import StoredEntry
from jaato_gc_stash._stored_message import Content, StoredMessage
from jaato_gc_stash._tables import contents, entries, in_chunks, parts
from jaato_gc_stash._words import words_to_index

_PUT_CONTENT = text(
    # The update of an existing row locks it, so that no other transaction deletes it meanwhile.
    "INSERT INTO stash_contents (digest, body, size) VALUES (:digest, :body, :size) "
    "ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest"
)
_PUT_ENTRY = text(
    "INSERT INTO stash_entries (project, agent, key, gc_id, stashed_at, about, frame, size, "
    "checksum) VALUES (:project, :agent, :key, :gc_id, :stashed_at, :about, :frame, :size, "
    ":checksum) "
    "ON CONFLICT (project, agent, key) DO UPDATE SET gc_id = excluded.gc_id, "
    "stashed_at = excluded.stashed_at, about = excluded.about, frame = excluded.frame, "
    "size = excluded.size, checksum = excluded.checksum"
)
_PUT_PART = text(
    "INSERT INTO stash_parts (entry_id, position, content_id) "
    "SELECT e.id, CAST(:position AS BIGINT), c.id FROM stash_entries e, stash_contents c "
    "WHERE e.project = :project AND e.agent = :agent AND e.key = :key AND c.digest = :digest"
)
_AGE = "(CASE WHEN e.stashed_at < :now THEN :now - e.stashed_at ELSE 0.0 END)"
_RECENCY = f"(1.0 + 1.0 / (1.0 + {_AGE} / 86400.0))"
"""The factor for recency: 2 for new entries, 1.5 after a day, and close to 1 for old ones."""


@dataclass(frozen=True)
class Namespace:
    """The entries of one agent in one project.

    Args:
        project: The name of the project.
        agent: The name of the agent.
        also_read: The names of other agents whose entries this one can read.
    """

    project: str
    agent: str
    also_read: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.project!r} {self.agent!r}"

    @property
    def own(self) -> ColumnElement[bool]:
        """The condition for entries that this agent can write, count and delete."""
        return (entries.c.project == self.project) & (entries.c.agent == self.agent)

    @property
    def readable(self) -> ColumnElement[bool]:
        """The condition for entries that this agent can read."""
        return (entries.c.project == self.project) & entries.c.agent.in_(self.owners)

    @property
    def owners(self) -> tuple[str, ...]:
        """The agents whose entries this one can read; itself first."""
        return (self.agent, *self.also_read)

    @property
    def _names(self) -> dict[str, str]:
        return {"project": self.project, "agent": self.agent}

    # --- writing ---

    def put(
        self,
        connection: Connection,
        database: Database,
        messages: Mapping[str, StoredMessage],
        gc_id: str,
        now: float,
    ) -> set[int]:
        """Stores messages by key. Returns the ids of contents that replaced entries had."""
        all_contents = {each.digest: each for one in messages.values() for each in one.contents}
        self._put_contents(connection, database, all_contents)
        released: set[int] = set()
        for keys in in_chunks(messages):
            released |= self.release(connection, self._ids(connection, keys))
        if messages:
            connection.execute(
                _PUT_ENTRY, [self._row(key, one, gc_id, now) for key, one in messages.items()]
            )
        links = [
            {"key": key, "position": position, "digest": content.digest, **self._names}
            for key, one in messages.items()
            for position, content in enumerate(one.contents)
        ]
        if links:
            connection.execute(_PUT_PART, links)
        return released

    def _put_contents(
        self, connection: Connection, database: Database, by_digest: Mapping[str, Content]
    ) -> None:
        # Every writer uses the order of the digests, so that two of them can't deadlock.
        rows = [
            {"digest": digest, "body": by_digest[digest].body, "size": len(by_digest[digest].body)}
            for digest in sorted(by_digest)
        ]
        if rows:
            connection.execute(_PUT_CONTENT, rows)
        words = {digest: words_to_index(content.text) for digest, content in by_digest.items()}
        database.index(connection, words)

    def _row(self, key: str, message: StoredMessage, gc_id: str, now: float) -> dict[str, Any]:
        bodies = [content.body for content in message.contents]
        entry = StoredEntry(
            self.project, self.agent, key, gc_id, now, message.about, message.frame, bodies
        )
        return {
            **self._names,
            "key": key,
            "gc_id": gc_id,
            "stashed_at": now,
            "about": message.about,
            "frame": message.frame,
            "size": len(message.frame),
            "checksum": entry.checksum(),
        }

    def _ids(self, connection: Connection, keys: Collection[str]) -> Sequence[int]:
        chosen = select(entries.c.id).where(self.own, entries.c.key.in_(keys))
        return connection.execute(chosen).scalars().all()

    def ids(self, connection: Connection, keys: Iterable[str] | None) -> list[int]:
        """Returns the ids of the agent's entries under the keys, or of all its entries."""
        if keys is None:
            return list(connection.execute(select(entries.c.id).where(self.own)).scalars())
        return [each for chunk in in_chunks(keys) for each in self._ids(connection, chunk)]

    # --- reading ---

    def stats(self, connection: Connection) -> StashStats:
        """Returns the number and size of the agent's entries."""
        count, oldest, newest = connection.execute(
            select(
                func.count(), func.min(entries.c.stashed_at), func.max(entries.c.stashed_at)
            ).where(self.own)
        ).one()
        distinct, size = size_of(connection, self.own)
        return StashStats(count, distinct, size, oldest, newest)

    def rows(self, connection: Connection, keys: Iterable[str]) -> dict[str, list[Any]]:
        """Returns the rows under each key, one row per part.

        If several agents have an entry under a key, the agent's own one is returned.
        """
        found: dict[tuple[str, str], list[Any]] = {}
        for chunk in in_chunks(dict.fromkeys(keys)):
            # One statement, so that a concurrent delete can't separate an entry and its contents.
            rows = connection.execute(
                select(entries, contents.c.body)
                .select_from(
                    entries.outerjoin(parts, parts.c.entry_id == entries.c.id).outerjoin(
                        contents, contents.c.id == parts.c.content_id
                    )
                )
                .where(self.readable, entries.c.key.in_(chunk))
                .order_by(entries.c.id, parts.c.position)
            )
            for row in rows:
                found.setdefault((row.agent, row.key), []).append(row)
        by_key: dict[str, list[Any]] = {}
        for owner in self.owners:
            for (agent, key), rows_of_entry in found.items():
                if agent == owner:
                    by_key.setdefault(key, rows_of_entry)
        return by_key

    def search(
        self,
        connection: Connection,
        database: Database,
        words: Sequence[str],
        limit: int,
        now: float,
    ) -> Sequence[Any]:
        """Returns the rows of the best matching entries, with a ``score``, best first."""
        matching, parameters = database.matching(words)
        # MATERIALIZED, because SQLite can't compute bm25 in a query with GROUP BY.
        statement = text(
            f"WITH found AS MATERIALIZED ({matching}) "
            "SELECT e.id, e.agent, e.key, e.about, e.stashed_at, "
            f"sum(found.relevance) * {_RECENCY} AS score "
            "FROM found JOIN stash_parts p ON p.content_id = found.content_id "
            "JOIN stash_entries e ON e.id = p.entry_id "
            "WHERE e.project = :project AND e.agent IN :agents "
            "GROUP BY e.id ORDER BY score DESC, e.stashed_at DESC, e.id DESC LIMIT :limit"
        ).bindparams(bindparam("agents", expanding=True))
        scope = {"project": self.project, "agents": self.owners, "limit": limit, "now": now}
        return connection.execute(statement, {**scope, **parameters}).all()

    # --- deleting ---

    @staticmethod
    def release(connection: Connection, ids: Iterable[int]) -> set[int]:
        """Removes the references from entries to contents. Returns the ids of those contents."""
        released: set[int] = set()
        for chunk in in_chunks(ids):
            used = select(parts.c.content_id).where(parts.c.entry_id.in_(chunk)).distinct()
            ids_used = connection.execute(used).scalars()
            # A damaged SQLite file can have any type in its place.
            released.update(each for each in ids_used if isinstance(each, int))
            connection.execute(delete(parts).where(parts.c.entry_id.in_(chunk)))
        return released

    def delete(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Deletes entries. Returns the ids of the contents that they referred to."""
        released = self.release(connection, ids)
        for chunk in in_chunks(ids):
            connection.execute(delete(entries).where(entries.c.id.in_(chunk)))
        return released


def delete_unused(connection: Connection, database: Database, content_ids: Iterable[int]) -> None:
    """Deletes the given contents unless an entry in any namespace still refers to them."""
    for chunk in in_chunks(sorted(content_ids)):
        # The rows are locked before the check: another transaction may be about to use one.
        chosen = select(contents.c.id).where(contents.c.id.in_(chunk)).order_by(contents.c.id)
        connection.execute(chosen.with_for_update()).all()
        used = select(parts.c.content_id).where(parts.c.content_id.in_(chunk))
        unused = sorted(set(chunk) - set(connection.execute(used).scalars()))
        if unused:
            database.unindex(connection, unused)
            connection.execute(delete(contents).where(contents.c.id.in_(unused)))
