"""The SQLite backend: a stash in one file."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, bindparam, create_engine, event, text

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._words import is_prefix

_LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that is writing."""

FULL_TEXT_MODULE = "fts5"

T = TypeVar("T")

_turns: dict[Path, threading.Lock] = {}
"""The lock of each file, held while a thread of this process writes."""

if hasattr(os, "register_at_fork"):
    # A thread that holds a lock does not exist in the child, and would never release it there.
    os.register_at_fork(after_in_child=_turns.clear)


class SqliteDatabase(Database):
    """An SQLite database in a file that only its owner can read."""

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
                "and is writable"
            ) from None
        self._file = _identity(path)
        engine = create_engine(
            URL.create("sqlite+pysqlite", database=str(path)),
            connect_args={"timeout": _LOCK_TIMEOUT, "check_same_thread": False},
            hide_parameters=True,
        )
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        super().__init__(engine, place)

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        self._check_file(doing)
        with super().reading(doing) as connection:
            yield connection

    def write(self, doing: str, work: Callable[[Connection], T], *, lock: str) -> T:
        with self._turn():
            self._check_file(doing)
            written = super().write(doing, work, lock=lock)
            self._check_file(doing)  # else it is in a file that nothing finds again
            return written

    def _check_file(self, doing: str) -> None:
        """Checks that the path still names the file that was opened.

        Open connections go on writing to a deleted file, and lose what they write.

        Raises:
            StashError: It was deleted or replaced.
        """
        if _identity(self.path) != self._file:
            raise StashError(
                f"{self.place}: can't {doing}: the file was deleted or replaced while it was open; "
                "open the stash again to begin with the file that is there now"
            )

    def _turn(self) -> threading.Lock:
        """Returns the lock with which the threads of this process take turns.

        SQLite's own waiting is not fair: a connection polls, and the one that just wrote is often
        the next one to write, so that one of many threads could wait until it times out.
        """
        return _turns.setdefault(self.path, threading.Lock())

    def remedy(self, reason: str) -> str:
        for words, remedy in _REMEDIES.items():
            if words in reason:
                return remedy
        return "see SQLite's documentation of this error"

    def is_conflict(self, error: BaseException) -> bool:  # noqa: ARG002
        return False  # SQLite never aborts a transaction that has begun to write

    def lock(self, connection: Connection, name: str) -> None:
        """Does nothing: SQLite has one writer at a time."""

    def check_entries(self, connection: Connection) -> None:
        found = connection.exec_driver_sql("PRAGMA integrity_check(stash_entries)").scalars().all()
        if found != ["ok"]:
            raise StashError(
                f"{self.place}: the table of entries is damaged: {found[0]!a:.200}; move the file "
                "away and restore a backup"
            )

    def create_index(self, connection: Connection) -> None:
        # The words are tokenized already, so the index only has to split at spaces. The ascii
        # tokenizer treats every character beyond ASCII as part of a word.
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

    def erase_deleted(self) -> None:
        """Rewrites the file without deleted content, and empties the write-ahead log.

        Deleting rows leaves their bytes in free pages, in the log, and in the full-text index,
        which only marks words as deleted. ``PRAGMA secure_delete`` does not suffice: SQLite moves
        cells between pages, and leaves copies of them in the unused space of a page.
        """
        doing = "erase deleted content from the file, although its entries are deleted"
        engine = self.engine.execution_options(jaato_gc_begin=None)
        self._check_file(doing)
        with self._translating_errors(doing), self._turn(), engine.connect() as connection:
            connection.exec_driver_sql("INSERT INTO stash_words (stash_words) VALUES ('optimize')")
            connection.exec_driver_sql("VACUUM")
            is_erased = _empty_write_ahead_log(connection)
        if not is_erased:
            raise StashError(
                f"{self.place}: can't {doing}: another connection is still reading it; call "
                "forget() again when it has finished"
            )

    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        terms = []
        for word in words:
            terms.append(f'"{word}"')
            if is_prefix(word):
                terms.append(f'"{word}" *')
        # Negated, because a lower bm25 is a better match in SQLite.
        return (
            "SELECT rowid AS content_id, -bm25(stash_words) AS relevance "
            "FROM stash_words WHERE stash_words MATCH :query",
            {"query": " OR ".join(terms)},
        )


_RESTORE_A_BACKUP = "the file is damaged; move it away and restore a backup"
_REMEDIES = {
    "full": "free disk space and try again",
    "I/O": "check the disk and its free space, and try again",
    "locked": "another process did not finish writing in time; try again",
    "not a database": "this file is not an SQLite database; choose another path",
    "readonly": "make the file and its folder writable",
    "unable to open": "check that the path names a file and that it is writable",
    "malformed": _RESTORE_A_BACKUP,
    "no such": _RESTORE_A_BACKUP,
    "decode": _RESTORE_A_BACKUP,
}


def _identity(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file from another one under its path; ``None`` if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _create_file(path: Path) -> None:
    """Creates the file and its folders, accessible to the owner only.

    SQLite gives the file's mode to its ``-wal`` and ``-shm`` files.
    """
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    if os.name == "posix":
        # Otherwise the new directory entry could be lost in a power failure, and the file with it.
        folder_handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder_handle)
        finally:
            os.close(folder_handle)


def _set_up(connection: sqlite3.Connection, _record: object) -> None:
    # Disables the implicit transactions of the sqlite3 module; `_begin` starts them explicitly.
    connection.isolation_level = None
    modules = "SELECT count(*) FROM pragma_module_list WHERE name = ?"
    if not connection.execute(modules, [FULL_TEXT_MODULE]).fetchone()[0]:
        raise StashError(
            f"SQLite {sqlite3.sqlite_version} of this Python has no full-text search (FTS5): use a "
            "Python whose SQLite includes FTS5, or PostgreSQL"
        )
    _enable_write_ahead_log(connection)
    # With a write-ahead log, commits survive a power failure only if this is FULL.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # has an effect on macOS only
    connection.execute("PRAGMA foreign_keys = ON")


def _enable_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Enables the write-ahead log, so that readers and the writer don't block each other."""
    # SQLite's own timeout does not apply to a change of the journal mode.
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _empty_write_ahead_log(connection: Connection) -> bool:
    """Moves all changes to the database file. Returns whether no other connection prevents it."""
    # SQLite waits for readers and writers, but not for another connection that does the same.
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _begin(connection: Connection) -> None:
    if begin := connection.get_execution_options().get("jaato_gc_begin", "BEGIN"):
        connection.exec_driver_sql(begin)
