"""A database behind a stash: what is common to all, and how errors are told."""

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

_TRIES = 5
"""How often a write is tried that a database gave up in favour of another."""


class Database(ABC):
    """A kind of database.

    Args:
        engine: How to reach it.
        place: What to call it in messages: without passwords.
        secret: The password, to be taken out of what a database says.
    """

    id_type: ClassVar[str]
    bytes_type: ClassVar[str]

    def __init__(self, engine: Engine, place: str, secret: str | None = None) -> None:
        self.engine = engine
        self.place = place
        self._secret = secret
        weakref.finalize(self, engine.dispose)  # or Python complains of open connections
        _databases.add(self)
        with self.reading("open it") as connection:
            current = is_current(connection)
        if not current:  # a stash that is up to date can be opened while others write
            self.write("open it", lambda connection: migrate(connection, self), lock="schema")

    def close(self) -> None:
        """Close all connections that are not in use; whoever needs one again gets a new one."""
        self.engine.dispose()

    @contextmanager
    def reading(self, doing: str) -> Iterator[Connection]:
        """A connection to read with."""
        with self._explaining(doing), self.engine.connect() as connection:
            yield connection

    def write(self, doing: str, work: Callable[[Connection], T], *, lock: str) -> T:
        """Do some work in one transaction: all of it is kept when this returns, or none.

        Args:
            doing: What for, in words that follow "can't".
            work: May be called again, if the database gave up the transaction.
            lock: What nobody else may write to meanwhile.
        """
        engine = self.engine.execution_options(jaato_gc_writes=True)
        for left in reversed(range(_TRIES)):
            try:
                with self._explaining(doing, left), engine.begin() as connection:
                    self.lock(connection, lock)
                    return work(connection)
            except _GivenUpError:
                pass
        raise AssertionError("the last try either worked or failed")

    @contextmanager
    def _explaining(self, doing: str, tries_left: int = 0) -> Iterator[None]:
        """Tell errors of the database in words of ours."""
        try:
            yield
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
            if tries_left and self.has_given_up(cause):
                raise _GivenUpError from error
            reason = " ".join(str(cause).split())
            if self._secret:
                reason = reason.replace(self._secret, "***")
            raise StashError(
                f"{self.place}: can't {doing}: {reason}; {self.remedy(reason)}"
            ) from None  # the original may show content, or the way to the database

    # --- what differs ---

    @abstractmethod
    def remedy(self, reason: str) -> str:
        """What to do about an error."""

    @abstractmethod
    def has_given_up(self, error: BaseException) -> bool:
        """Whether the same may work if it is tried again at once."""

    @abstractmethod
    def lock(self, connection: Connection, name: str) -> None:
        """Let nobody else hold a lock of this name until the transaction ends."""

    @abstractmethod
    def create_index(self, connection: Connection) -> None:
        """Make what full-text search needs."""

    @abstractmethod
    def index(self, connection: Connection, words: Mapping[str, Sequence[str]]) -> None:
        """Make contents searchable that are not yet: the words of each, by digest."""

    @abstractmethod
    def unindex(self, connection: Connection, content_ids: Sequence[int]) -> None:
        """Make contents unsearchable that are about to be deleted."""

    @abstractmethod
    def matching(self, words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
        """A query for ``content_id`` and ``relevance`` of what has any of some words."""


class _GivenUpError(Exception):
    """The database gave this transaction up; another try is due."""


_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()
_of_parents: list[Pool] = []


def _leave_connections_to_parent() -> None:
    # Kept, since even forgetting them would close them, and the parent goes on using them.
    for database in _databases:
        _of_parents.append(database.engine.pool)
        database.engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections_to_parent)
