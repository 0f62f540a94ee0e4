"""A stash in one file."""

import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, bindparam, create_engine, event, text

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._words import is_prefix

_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""

FULL_TEXT_MODULE = "fts5"


class SqliteDatabase(Database):
    """SQLite, in a file that only its owner can read."""

    id_type = "INTEGER"
    bytes_type = "BLOB"

    def __init__(self, path: Path) -> None:
        self.path = path
        place = f"stash {path}"
        try:
            _create_file(path)
        except OSError as error:
            raise StashError(
                f"{place}: can't open it: {error.strerror or error}; check that the folder exists "
                "and may be written to"
            ) from None
        engine = create_engine(
            URL.create("sqlite+pysqlite", database=str(path)),
            connect_args={"timeout": _PATIENCE, "check_same_thread": False},
            hide_parameters=True,
        )
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        super().__init__(engine, place)

    def remedy(self, reason: str) -> str:
        for sign, remedy in _REMEDIES.items():
            if sign in reason:
                return remedy
        return "see what SQLite says"

    def has_given_up(self, error: BaseException) -> bool:  # noqa: ARG002
        return False  # whoever has begun to write is not interrupted

    def lock(self, connection: Connection, name: str) -> None:
        """Nothing more to do: there is one writer at a time."""

    def create_index(self, connection: Connection) -> None:
        # The words are cut already: all that is left to do is to split at spaces. Letters beyond
        # ASCII are letters to this tokenizer, whatever their script.
        connection.execute(
            text(
                "CREATE VIRTUAL TABLE stash_words USING fts5"
                """(words, tokenize = "ascii tokenchars '_'")"""
            )
        )

    def index(self, connection: Connection, words: Mapping[str, Sequence[str]]) -> None:
        statement = text(
            "INSERT INTO stash_words (rowid, words) "
            "SELECT id, :words FROM stash_contents WHERE digest = :digest "
            "AND NOT EXISTS (SELECT 1 FROM stash_words WHERE stash_words.rowid = stash_contents.id)"
        )
        rows = [{"digest": digest, "words": " ".join(each)} for digest, each in words.items()]
        if rows:
            connection.execute(statement, rows)

    def unindex(self, connection: Connection, content_ids: Sequence[int]) -> None:
        statement = text("DELETE FROM stash_words WHERE rowid IN :ids")
        connection.execute(
            statement.bindparams(bindparam("ids", expanding=True)), {"ids": content_ids}
        )

    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        terms = []
        for word in words:
            terms.append(f'"{word}"')
            if is_prefix(word):
                terms.append(f'"{word}" *')
        # SQLite's measure is the smaller the better.
        return (
            "SELECT rowid AS content_id, -bm25(stash_words) AS relevance "
            "FROM stash_words WHERE stash_words MATCH :asked",
            {"asked": " OR ".join(terms)},
        )


_REMEDIES = {
    "full": "make room on the disk, and it works again",
    "I/O": "make room on the disk and check it, and try again",
    "locked": "another process has been writing for long; try again",
    "not a database": "this file is something else; choose another path",
    "readonly": "make the file and its folder writable",
    "unable to open": "check that this is a path to a file, and that it may be written to",
    "malformed": "the file is damaged; put it aside and restore a copy",
}


def _create_file(path: Path) -> None:
    """Make the file and its folders, for nobody but the owner. SQLite's other files follow it."""
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    if os.name == "posix":
        # What is kept is only kept if the file itself is found again after a power failure.
        folder_handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder_handle)
        finally:
            os.close(folder_handle)


def _set_up(connection: sqlite3.Connection, _record: object) -> None:
    # Transactions begin where `_begin` says so, not where Python's module guesses.
    connection.isolation_level = None
    modules = "SELECT count(*) FROM pragma_module_list WHERE name = ?"
    if not connection.execute(modules, [FULL_TEXT_MODULE]).fetchone()[0]:
        raise StashError(
            f"this Python's SQLite {sqlite3.sqlite_version} has no full-text search (FTS5): use a "
            "Python that was built with it, or PostgreSQL"
        )
    _write_ahead(connection)
    # With a write-ahead log, FULL is what lets a commit survive a power failure.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS; nothing elsewhere
    connection.execute("PRAGMA foreign_keys = ON")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, so that readers and a writer don't wait for each other."""
    # SQLite does not wait here for others who do the same at the same time, so we do.
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    # A writer says so at once: one that starts as a reader can find that it may no longer write.
    writes = connection.get_execution_options().get("jaato_gc_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
