"""The statements of a stash: what is written to and read from the tables of one namespace."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select, text

from jaato_gc import StashStats
from jaato_gc_stash._database import Database
from jaato_gc_stash._forms import Content, Form
from jaato_gc_stash._limits import size_of
from jaato_gc_stash._tables import contents, entries, in_chunks, parts
from jaato_gc_stash._words import words_to_index

_PUT_CONTENT = text(
    # Touched even if it is there already: nobody can delete it before this transaction ends.
    "INSERT INTO stash_contents (digest, body, size) VALUES (:digest, :body, :size) "
    "ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest"
)
_PUT_ENTRY = text(
    "INSERT INTO stash_entries (project, agent, key, gc_id, stashed_at, about, frame, size) "
    "VALUES (:project, :agent, :key, :gc_id, :stashed_at, :about, :frame, :size) "
    "ON CONFLICT (project, agent, key) DO UPDATE SET gc_id = excluded.gc_id, "
    "stashed_at = excluded.stashed_at, about = excluded.about, frame = excluded.frame, "
    "size = excluded.size"
)
_PUT_PART = text(
    "INSERT INTO stash_parts (entry_id, position, content_id) "
    "SELECT e.id, CAST(:position AS BIGINT), c.id FROM stash_entries e, stash_contents c "
    "WHERE e.project = :project AND e.agent = :agent AND e.key = :key AND c.digest = :digest"
)
_AGE = "(CASE WHEN e.stashed_at < :now THEN :now - e.stashed_at ELSE 0.0 END)"
_RECENCY = f"(1.0 + 1.0 / (1.0 + {_AGE} / 86400.0))"
"""Twice for what is new, once for what is old, half way after a day."""


@dataclass(frozen=True)
class Namespace:
    """The entries of one agent in one project, and those of others that it may read."""

    project: str
    agent: str
    also_read: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.project!r} {self.agent!r}"

    @property
    def own(self) -> ColumnElement[bool]:
        """What may be written, counted and deleted."""
        return (entries.c.project == self.project) & (entries.c.agent == self.agent)

    @property
    def readable(self) -> ColumnElement[bool]:
        """What may be read."""
        return (entries.c.project == self.project) & entries.c.agent.in_(self.readers)

    @property
    def readers(self) -> tuple[str, ...]:
        return (self.agent, *self.also_read)

    @property
    def _names(self) -> dict[str, str]:
        return {"project": self.project, "agent": self.agent}

    # --- writing ---

    def put(
        self,
        connection: Connection,
        database: Database,
        forms: Mapping[str, Form],
        gc_id: str,
        now: float,
    ) -> set[int]:
        """Store messages by key; returns contents that entries of those keys had before."""
        all_contents = {each.digest: each for form in forms.values() for each in form.contents}
        self._put_contents(connection, database, all_contents)
        loose: set[int] = set()
        for keys in in_chunks(forms):
            loose |= self.release(connection, self._ids(connection, keys))
        if forms:
            connection.execute(
                _PUT_ENTRY, [self._row(key, form, gc_id, now) for key, form in forms.items()]
            )
        links = [
            {"key": key, "position": position, "digest": content.digest, **self._names}
            for key, form in forms.items()
            for position, content in enumerate(form.contents)
        ]
        if links:
            connection.execute(_PUT_PART, links)
        return loose

    def _put_contents(
        self, connection: Connection, database: Database, found: Mapping[str, Content]
    ) -> None:
        # In the same order everywhere, or two writers could wait for each other.
        rows = [
            {"digest": digest, "body": found[digest].body, "size": len(found[digest].body)}
            for digest in sorted(found)
        ]
        if rows:
            connection.execute(_PUT_CONTENT, rows)
        words = {digest: words_to_index(content.text) for digest, content in found.items()}
        database.index(connection, words)

    def _row(self, key: str, form: Form, gc_id: str, now: float) -> dict[str, Any]:
        return {
            **self._names,
            "key": key,
            "gc_id": gc_id,
            "stashed_at": now,
            "about": form.about,
            "frame": form.frame,
            "size": len(form.frame),
        }

    def _ids(self, connection: Connection, keys: Collection[str]) -> Sequence[int]:
        chosen = select(entries.c.id).where(self.own, entries.c.key.in_(keys))
        return connection.execute(chosen).scalars().all()

    def ids(self, connection: Connection, keys: Iterable[str] | None) -> list[int]:
        """The entries under some keys, or all."""
        if keys is None:
            return list(connection.execute(select(entries.c.id).where(self.own)).scalars())
        return [each for some in in_chunks(keys) for each in self._ids(connection, some)]

    # --- reading ---

    def stats(self, connection: Connection) -> StashStats:
        """How much there is."""
        count, oldest, newest = connection.execute(
            select(
                func.count(), func.min(entries.c.stashed_at), func.max(entries.c.stashed_at)
            ).where(self.own)
        ).one()
        different, size = size_of(connection, self.own)
        return StashStats(count, different, size, oldest, newest)

    def rows(self, connection: Connection, keys: Iterable[str]) -> dict[str, list[Any]]:
        """What is stored under some keys: a row for each part; own entries before others'."""
        found: dict[tuple[str, str], list[Any]] = {}
        for some in in_chunks(dict.fromkeys(keys)):
            # One statement: nothing can be deleted between an entry and its contents.
            rows = connection.execute(
                select(entries, contents.c.body)
                .select_from(
                    entries.outerjoin(parts, parts.c.entry_id == entries.c.id).outerjoin(
                        contents, contents.c.id == parts.c.content_id
                    )
                )
                .where(self.readable, entries.c.key.in_(some))
                .order_by(entries.c.id, parts.c.position)
            )
            for row in rows:
                found.setdefault((row.agent, row.key), []).append(row)
        by_key: dict[str, list[Any]] = {}
        for agent in self.readers:
            for (owner, key), rows_of_one in found.items():
                if owner == agent:
                    by_key.setdefault(key, rows_of_one)
        return by_key

    def search(
        self,
        connection: Connection,
        database: Database,
        words: Sequence[str],
        limit: int,
        now: float,
    ) -> Sequence[Any]:
        """Key, ``about``, time and score of what fits best."""
        matching, asked = database.matching(words)
        # Materialized: SQLite can't rank within a statement that groups.
        statement = text(
            f"WITH found AS MATERIALIZED ({matching}) "
            "SELECT e.id, e.agent, e.key, e.about, e.stashed_at, "
            f"sum(found.relevance) * {_RECENCY} AS score "
            "FROM found JOIN stash_parts p ON p.content_id = found.content_id "
            "JOIN stash_entries e ON e.id = p.entry_id "
            "WHERE e.project = :project AND e.agent IN :agents "
            "GROUP BY e.id ORDER BY score DESC, e.stashed_at DESC, e.id DESC LIMIT :limit"
        ).bindparams(bindparam("agents", expanding=True))
        found = {"project": self.project, "agents": self.readers, "limit": limit, "now": now}
        return connection.execute(statement, {**found, **asked}).all()

    # --- deleting ---

    @staticmethod
    def release(connection: Connection, ids: Iterable[int]) -> set[int]:
        """Take the contents from some entries; returns them: they may belong to nobody now."""
        loose: set[int] = set()
        for some in in_chunks(ids):
            used = select(parts.c.content_id).where(parts.c.entry_id.in_(some)).distinct()
            loose.update(connection.execute(used).scalars())
            connection.execute(delete(parts).where(parts.c.entry_id.in_(some)))
        return loose

    def delete(self, connection: Connection, ids: Collection[int]) -> set[int]:
        """Delete entries; returns the contents that they had."""
        loose = self.release(connection, ids)
        for some in in_chunks(ids):
            connection.execute(delete(entries).where(entries.c.id.in_(some)))
        return loose


def delete_unused(connection: Connection, database: Database, content_ids: Iterable[int]) -> None:
    """Delete those of some contents that no entry has any more, of whatever namespace."""
    for some in in_chunks(sorted(content_ids)):
        # First wait for whoever is about to use or drop one of them, then look.
        chosen = select(contents.c.id).where(contents.c.id.in_(some)).order_by(contents.c.id)
        connection.execute(chosen.with_for_update()).all()
        used = select(parts.c.content_id).where(parts.c.content_id.in_(some))
        unused = sorted(set(some) - set(connection.execute(used).scalars()))
        if unused:
            database.unindex(connection, unused)
            connection.execute(delete(contents).where(contents.c.id.in_(unused)))
