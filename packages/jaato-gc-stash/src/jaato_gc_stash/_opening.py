"""From what a user calls it to a database."""

import os
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from jaato_gc import StashError
from jaato_gc_stash._database import Database
from jaato_gc_stash._postgres import PostgresDatabase
from jaato_gc_stash._sqlite import SqliteDatabase


def open_database(place: str | os.PathLike[str]) -> Database:
    """The database at a path or URL, with all tables in their newest form.

    Raises:
        StashError: It can't be used.
    """
    if not isinstance(place, str) or "://" not in place:
        if os.fspath(place) in ("", ":memory:"):
            raise _needs_a_file()
        return SqliteDatabase(Path(place).expanduser().absolute())
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):
        raise StashError(
            "the stash's URL can't be read: it is not shown, as it may hold a password; "
            "write postgresql://user:password@host/database, with special characters escaped, "
            "or the path of a file"
        ) from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise _needs_a_file()
        return SqliteDatabase(Path(str(url.database)).expanduser().absolute())
    if kind in ("postgres", "postgresql"):
        return PostgresDatabase(url)
    raise StashError(
        f"a stash can't be kept in {kind!a}: use a path, sqlite:///path or postgresql://…"
    )


def _needs_a_file() -> StashError:
    return StashError(
        "a stash needs a file, or it would keep nothing: give a path (for tests, there is "
        "jaato_gc_testing.MemoryStash)"
    )
