"""The base class of the supported databases: connections, transactions and error messages."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection, Engine, Pool
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jaato_gc import StashError
from jaato_gc_stash._tables import is_current, migrate

T = TypeVar("T")

_MAX_ATTEMPTS = 5
"""The number of attempts for a transaction that the database aborts because of a conflict."""


class Database(ABC):
    """A database that holds a stash. Opening it creates or migrates its tables.

    Args:
        engine: The SQLAlchemy engine.
        place: The name of the database in error messages, without passwords.
        secret: The password, which is removed from the database's error messages.
    """

    id_type: ClassVar[str]
    bytes_type: ClassVar[str]

    def __init__(self, engine: Engine, place: str, secret: str | None = None) -> None:
        self.engine = engine
        self.place = place
        self._secret = secret
        weakref.finalize(self, engine.dispose)  # prevents a ResourceWarning for open connections
        _databases.add(self)
        with self.reading("open it") as connection:
            current = is_current(connection, self)
        if not current:  # only then: a write would wait for other writers
            self.write("open it", lambda connection: migrate(connection, self), lock="schema")

    def close(self) -> None:
        """Closes all idle connections. The next operation opens a new one."""
        self.engine.dispose()

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        """Yields a connection for reading.

        Args:
            doing: The operation, as in "can't <doing>", for error messages.
        """
        with self._translating_errors(doing), self.engine.connect() as connection:
            yield connection

    def write(self, doing: str, work: Callable[[Connection], T], *, lock: str) -> T:
        """Runs a function in one transaction, which is committed when this returns.

        Args:
            doing: The operation, as in "can't <doing>", for error messages.
            work: The function. It is called again if the database aborts the transaction.
            lock: The name of the lock to hold until the transaction ends.

        Raises:
            StashError: The transaction failed and was rolled back.
        """
        # SQLite only: a transaction that starts as a reader can fail, without waiting, when it
        # begins to write.
        engine = self.engine.execution_options(jaato_gc_begin="BEGIN IMMEDIATE")
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                with (
                    self._translating_errors(doing, attempts_left),
                    engine.begin() as connection,
                ):
                    self.lock(connection, lock)
                    return work(connection)
            except _ConflictError:
                pass
        raise AssertionError("the last attempt returns or raises StashError")

    @contextmanager
    def _translating_errors(self, doing: str, attempts_left: int = 0) -> Iterator[None]:
        """Raises database errors as `StashError`, or as `_ConflictError` if a retry may help."""
        try:
            yield
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            # UnicodeDecodeError: SQLite quotes a damaged schema in its error message.
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            if attempts_left and self.is_conflict(cause):
                raise _ConflictError from error
            reason = " ".join(str(cause).split())
            if self._secret:
                reason = reason.replace(self._secret, "***")
            raise StashError(
                f"{self.place}: can't {doing}: {reason}; {self.remedy(reason)}"
            ) from None  # the original error may contain stashed content or the URL

    # --- implemented by each database ---

    @abstractmethod
    def remedy(self, reason: str) -> str:
        """Returns advice for an error message of the database."""

    @abstractmethod
    def is_conflict(self, error: BaseException) -> bool:
        """Returns whether the transaction failed because of another one and can be retried."""

    @abstractmethod
    def lock(self, connection: Connection, name: str) -> None:
        """Acquires a named exclusive lock until the transaction ends."""

    @abstractmethod
    def check_entries(self, connection: Connection) -> None:
        """Checks that no entry is missing because the database is damaged.

        Raises:
            StashError: The table of entries or one of its indexes is damaged.
        """

    @abstractmethod
    def create_index(self, connection: Connection) -> None:
        """Creates the full-text index."""

    @abstractmethod
    def index(self, connection: Connection, words: Mapping[str, Sequence[str]]) -> None:
        """Indexes contents that are not indexed yet.

        Args:
            connection: The connection of the transaction.
            words: The words of each content, by digest.
        """

    @abstractmethod
    def unindex(self, connection: Connection, content_ids: Sequence[int]) -> None:
        """Removes contents from the index, before they are deleted."""

    @abstractmethod
    def erase_deleted(self) -> None:
        """Erases the bytes of deleted rows, as far as the database allows it.

        Raises:
            StashError: The rows are deleted, but their bytes may still be there.
        """

    @abstractmethod
    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        """Returns a query for the contents with any of the words, and its parameters.

        The query selects ``content_id`` and ``relevance`` (higher is better).
        """


class _ConflictError(Exception):
    """The database aborted a transaction that can be retried."""


_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()
_pools_of_parent: list[Pool] = []


def _abandon_connections_of_parent() -> None:
    # The pools are kept: garbage collection would close connections that the parent still uses.
    for database in _databases:
        _pools_of_parent.append(database.engine.pool)
        database.engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_connections_of_parent)
