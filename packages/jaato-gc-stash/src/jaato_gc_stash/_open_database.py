"""Opens the database that a path or URL names."""

import os
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._postgres import PostgresDatabase
from jaato_gc_stash._sqlite import SqliteDatabase


def open_database(place: str | os.PathLike[str]) -> Database:
    """Opens the database at a path or URL, and migrates its tables to the current version.

    Raises:
        StashError: The path or URL is invalid, or the database can't be opened.
    """
    path = os.fspath(place) if isinstance(place, os.PathLike) else place
    if not isinstance(path, str) or "\0" in path:
        raise StashError(
            "url (not shown, because it may contain a password): expected a path or a URL as text "
            f"without NUL characters, got {type(path).__name__}"
        )
    if not isinstance(place, str) or "://" not in place:
        if path in ("", ":memory:"):
            raise _needs_a_file()
        return SqliteDatabase(Path(place).expanduser().absolute())
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):
        raise StashError(
            "invalid URL of a stash (not shown, because it may contain a password): expected "
            "postgresql://user:password@host/database with special characters percent-encoded, "
            "or the path of a file"
        ) from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise _needs_a_file()
        return SqliteDatabase(Path(str(url.database)).expanduser().absolute())
    if kind in ("postgres", "postgresql"):
        return PostgresDatabase(url)
    raise StashError(f"unsupported database {kind!a}: use a path, sqlite:///path or postgresql://…")


def _needs_a_file() -> StashError:
    return StashError(
        "a stash can't be an in-memory database: give the path of a file, or use "
        "jaato_gc_testing.MemoryStash in tests"
    )
