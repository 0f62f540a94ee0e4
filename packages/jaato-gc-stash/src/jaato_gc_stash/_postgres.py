"""A stash in a PostgreSQL database, for many agents on many machines."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, text

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._words import is_prefix

_POSITIONS = 16_383
"""The last position in a text that PostgreSQL tells apart."""


class PostgresDatabase(Database):
    """PostgreSQL, by way of psycopg."""

    id_type = "BIGINT GENERATED ALWAYS AS IDENTITY"
    bytes_type = "BYTEA"

    def __init__(self, url: URL) -> None:
        where = f" on {url.host or url.query.get('host') or 'this machine'}"
        place = f"stash in PostgreSQL database {url.database or 'of the default name'}{where}"
        url = url.set(drivername="postgresql+psycopg")
        try:
            # A connection that the server has closed meanwhile is replaced without an error.
            engine = create_engine(url, pool_pre_ping=True, hide_parameters=True)
        except ImportError:
            raise StashError(
                f"{place}: psycopg, which speaks to it, is not installed: "
                "pip install 'jaato-gc-stash[postgres]'"
            ) from None
        event.listen(engine, "connect", _set_up)
        super().__init__(engine, place, str(url.password) if url.password else None)

    def remedy(self, reason: str) -> str:
        for sign, remedy in _REMEDIES.items():
            if sign in reason:
                return remedy
        return "see what the server says"

    def has_given_up(self, error: BaseException) -> bool:
        # Deadlock, or two transactions that can't both be as if alone.
        return getattr(error, "sqlstate", None) in ("40P01", "40001")

    def lock(self, connection: Connection, name: str) -> None:
        digest = hashlib.blake2b(f"jaato-gc-stash {name}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

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
        # In the order of all others, or two writers could wait for each other.
        rows = [{"digest": digest, "words": _vector(words[digest])} for digest in sorted(words)]
        if rows:
            connection.execute(statement, rows)

    def unindex(self, connection: Connection, content_ids: Sequence[int]) -> None:
        """Nothing to do: the words go with the content."""

    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        terms = []
        for word in words:
            terms.append(f"'{word}'")
            if is_prefix(word):
                terms.append(f"'{word}':*")
        # 1: a long text has any word by chance, so length counts against it.
        return (
            "SELECT id AS content_id, ts_rank(words, CAST(:asked AS TSQUERY), 1) AS relevance "
            "FROM stash_contents WHERE words @@ CAST(:asked AS TSQUERY)",
            {"asked": " | ".join(terms)},
        )


_REMEDIES = {
    "authentication failed": "check user and password in the URL",
    "No space left": "make room on the server's disk, and it works again",
    "permission denied": "let this user create and write tables in the database",
    "does not exist": "create it, or check the URL",
    "connection": "check that the server runs and the URL leads to it",
}


def _vector(words: Sequence[str]) -> str:
    # Words are cut already: given as a vector, no parser of the server's looks at them again.
    positions: dict[str, list[str]] = {}
    for position, word in enumerate(words, start=1):
        positions.setdefault(word, []).append(str(min(position, _POSITIONS)))
    return " ".join(f"'{word}':{','.join(each)}" for word, each in positions.items())


def _set_up(connection: Any, _record: object) -> None:
    # A server may be told to answer before it has stored; what is put must be kept.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()
