"""The tables of a stash, and the migrations that create them.

An entry is one message in one namespace. A content is stored once and shared by all entries that
have it as a part, in all namespaces. Contents are only ever read through an entry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, column, insert, inspect, select, table, text, update

from jaato_gc import StashError
from jaato_gc_stash._stored_message import searchable_text
from jaato_gc_stash._words import words_to_index

if TYPE_CHECKING:
    from jaato_gc_stash._database import Database

entries = table(
    "stash_entries",
    column("id"),
    column("project"),
    column("agent"),
    column("key"),
    column("gc_id"),
    column("stashed_at"),
    column("about"),
    column("frame"),
    column("size"),
    column("checksum"),
)
contents = table(
    "stash_contents",
    column("id"),
    column("digest"),
    column("body"),
    column("size"),
)
parts = table(
    "stash_parts",
    column("entry_id"),
    column("position"),
    column("content_id"),
)
schema = table("stash_schema", column("version"))

T = TypeVar("T")


def in_chunks(values: Iterable[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Yields the values in chunks, because databases limit the parameters of a statement."""
    all_values = list(values)
    for start in range(0, len(all_values), size):
        yield all_values[start : start + size]


def _create_tables(connection: Connection, database: "Database") -> None:
    for statement in (
        f"""CREATE TABLE stash_contents (
            id {database.id_type} PRIMARY KEY,
            digest TEXT NOT NULL UNIQUE,
            body {database.bytes_type} NOT NULL,
            size BIGINT NOT NULL
        )""",
        f"""CREATE TABLE stash_entries (
            id {database.id_type} PRIMARY KEY,
            project TEXT NOT NULL,
            agent TEXT NOT NULL,
            key TEXT NOT NULL,
            gc_id TEXT NOT NULL,
            stashed_at DOUBLE PRECISION NOT NULL,
            about TEXT NOT NULL,
            frame {database.bytes_type} NOT NULL,
            size BIGINT NOT NULL,
            checksum TEXT NOT NULL,
            UNIQUE (project, agent, key)
        )""",
        "CREATE INDEX stash_entries_by_age ON stash_entries (project, agent, stashed_at)",
        """CREATE TABLE stash_parts (
            entry_id BIGINT NOT NULL REFERENCES stash_entries ON DELETE CASCADE,
            position BIGINT NOT NULL,
            content_id BIGINT NOT NULL REFERENCES stash_contents,
            PRIMARY KEY (entry_id, position)
        )""",
        "CREATE INDEX stash_parts_by_content ON stash_parts (content_id)",
    ):
        connection.execute(text(statement))


def _create_search(connection: Connection, database: "Database") -> None:
    database.create_index(connection)
    stored = connection.execute(select(contents.c.digest, contents.c.body).order_by(contents.c.id))
    for rows in stored.partitions(100):
        database.index(connection, {row.digest: _words(row.body) for row in rows})


def _words(body: bytes) -> list[str]:
    try:
        return words_to_index(searchable_text(body))
    except ValueError:
        return []  # one damaged content must not prevent the migration of the others


MIGRATIONS: list[Callable[[Connection, "Database"], None]] = [_create_tables, _create_search]
"""The migrations in order: the first one creates version 1 of the tables.

A migration never changes after its release, because existing databases have already run it.
"""


def is_current(connection: Connection, database: "Database") -> bool:
    """Returns whether the tables of a database have the current version."""
    return _version(connection, database) == len(MIGRATIONS)


def _version(connection: Connection, database: "Database") -> int | None:
    if not inspect(connection).has_table(schema.name):
        return None
    versions = connection.execute(select(schema.c.version)).scalars().all()
    match versions:
        case [int(version)] if version >= 0:
            return version
    raise StashError(
        f"{database.place}: can't open it: expected one version in the table {schema.name}, got "
        f"{versions!a:.80}; the database is damaged: move it away and restore a backup"
    )


def migrate(connection: Connection, database: "Database") -> None:
    """Migrates a database to the current version. The caller holds an exclusive lock."""
    version = _version(connection, database)
    if version is None:
        version = 0
        connection.execute(text("CREATE TABLE stash_schema (version BIGINT NOT NULL)"))
        connection.execute(insert(schema).values(version=0))
    if version > len(MIGRATIONS):
        raise StashError(
            f"{database.place} was written by a newer jaato-gc-stash (version {version} of the "
            f"tables; this release supports up to {len(MIGRATIONS)}): upgrade jaato-gc-stash"
        )
    for step in MIGRATIONS[version:]:
        step(connection, database)
    if version < len(MIGRATIONS):
        connection.execute(update(schema).values(version=len(MIGRATIONS)))
