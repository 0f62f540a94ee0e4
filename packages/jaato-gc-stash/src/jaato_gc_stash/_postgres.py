"""The PostgreSQL backend, for many agents on many machines."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, text

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._words import is_prefix

_MAX_POSITION = 16_383
"""The highest word position in a PostgreSQL text search vector."""


class PostgresDatabase(Database):
    """A PostgreSQL database, accessed through psycopg."""

    id_type = "BIGINT GENERATED ALWAYS AS IDENTITY"
    bytes_type = "BYTEA"

    def __init__(self, url: URL) -> None:
        host = url.host or url.query.get("host") or "this machine"
        place = f"stash in PostgreSQL database {url.database or '(default)'} on {host}"
        url = url.set(drivername="postgresql+psycopg")
        try:
            # pool_pre_ping replaces connections that the server has closed.
            engine = create_engine(url, pool_pre_ping=True, hide_parameters=True)
        except ImportError:
            raise StashError(
                f"{place}: psycopg is not installed: pip install 'jaato-gc-stash[postgres]'"
            ) from None
        event.listen(engine, "connect", _set_up)
        super().__init__(engine, place, str(url.password) if url.password else None)

    def remedy(self, reason: str) -> str:
        for words, remedy in _REMEDIES.items():
            if words in reason:
                return remedy
        return "see the server's log"

    def is_conflict(self, error: BaseException) -> bool:
        # Deadlock or serialization failure.
        return getattr(error, "sqlstate", None) in ("40P01", "40001")

    def lock(self, connection: Connection, name: str) -> None:
        digest = hashlib.blake2b(f"jaato-gc-stash {name}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

    def check_entries(self, connection: Connection) -> None:
        """Does nothing: detecting damaged files is the server's task (``data_checksums``)."""

    def create_index(self, connection: Connection) -> None:
        connection.execute(text("ALTER TABLE stash_contents ADD COLUMN words TSVECTOR"))
        connection.execute(
            text("CREATE INDEX stash_contents_by_words ON stash_contents USING GIN (words)")
        )

    def index(self, connection: Connection, words: Mapping[str, Sequence[str]]) -> None:
        statement = text(
            "UPDATE stash_contents SET words = CAST(:words AS TSVECTOR) "
            "WHERE digest = :digest AND words IS NULL"
        )
        # Every writer uses the order of the digests, so that two of them can't deadlock.
        rows = [{"digest": digest, "words": _vector(words[digest])} for digest in sorted(words)]
        if rows:
            connection.execute(statement, rows)

    def unindex(self, connection: Connection, content_ids: Sequence[int]) -> None:
        """Does nothing: the words are a column of the content."""

    def erase_deleted(self) -> None:
        """Does nothing: only ``VACUUM FULL`` erases, and it blocks the stash for all agents."""

    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        terms = []
        for word in words:
            terms.append(f"'{word}'")
            if is_prefix(word):
                terms.append(f"'{word}':*")
        # Normalization 1 divides by the logarithm of the length: long texts match by chance.
        return (
            "SELECT id AS content_id, ts_rank(words, CAST(:query AS TSQUERY), 1) AS relevance "
            "FROM stash_contents WHERE words @@ CAST(:query AS TSQUERY)",
            {"query": " | ".join(terms)},
        )


_REMEDIES = {
    "authentication failed": "check user and password in the URL",
    "No space left": "free space on the server's disk and try again",
    "permission denied": "grant this user the right to create and write tables in the database",
    "does not exist": "create it, or check the URL",
    "connection": "check that the server is running and that the URL is correct",
}


def _vector(words: Sequence[str]) -> str:
    # A literal vector bypasses the server's parser, which would split the words again.
    positions: dict[str, list[str]] = {}
    for position, word in enumerate(words, start=1):
        positions.setdefault(word, []).append(str(min(position, _MAX_POSITION)))
    return " ".join(f"'{word}':{','.join(each)}" for word, each in positions.items())


def _set_up(connection: Any, _record: object) -> None:
    # With synchronous_commit off, the server confirms commits before they are on disk.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()
