"""Selects the entries to delete when a namespace exceeds its limits."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, cast, func, select

from jaato_gc_stash._tables import contents, entries, parts


@dataclass(frozen=True)
class Limits:
    """The limits of a namespace. ``None`` means no limit.

    Args:
        max_age: The greatest age of an entry, in seconds.
        max_bytes: The total size of the frames and of the contents, each content counted once.
    """

    max_age: float | None
    max_bytes: int | None

    def entries_to_delete(
        self, connection: Connection, own: ColumnElement[bool], now: float, new: Collection[str]
    ) -> list[int]:
        """Returns the ids of the entries that exceed the limits, except those under new keys.

        Args:
            connection: The connection of the transaction.
            own: The condition that selects the entries of the namespace.
            now: The current time.
            new: The keys of the messages that were just put.
        """
        excess: set[int] = set()
        if self.max_age is not None:
            old = select(entries.c.id, entries.c.key).where(
                own, entries.c.stashed_at < now - self.max_age
            )
            excess.update(row.id for row in connection.execute(old) if row.key not in new)
        if self.max_bytes is not None and size_of(connection, own)[1] > self.max_bytes:
            excess.update(self._beyond_size(connection, own, new, excess))
        return sorted(excess)

    def _beyond_size(
        self,
        connection: Connection,
        own: ColumnElement[bool],
        new: Collection[str],
        too_old: Collection[int],
    ) -> list[int]:
        """Returns the entries that do not fit after the newer ones are counted."""
        rows = connection.execute(
            select(
                entries.c.id,
                entries.c.key,
                _size(entries.c.size).label("size"),
                parts.c.content_id,
                _size(contents.c.size).label("content_size"),
            )
            .select_from(
                entries.outerjoin(parts, parts.c.entry_id == entries.c.id).outerjoin(
                    contents, contents.c.id == parts.c.content_id
                )
            )
            .where(own)
            .order_by(entries.c.stashed_at.desc(), entries.c.id.desc())
        ).all()
        # New entries come first even if the clock was set back.
        rows = sorted(rows, key=lambda row: row.key not in new)
        assert self.max_bytes is not None
        left = self.max_bytes
        seen: set[int] = set()
        contents_seen: set[int] = set()
        beyond: list[int] = []
        for row in rows:
            if row.id in too_old:
                continue
            if row.id not in seen:
                seen.add(row.id)
                left -= row.size
            if row.content_id is not None and row.content_id not in contents_seen:
                contents_seen.add(row.content_id)
                left -= row.content_size
            if left < 0 and row.key not in new:
                beyond.append(row.id)
        return beyond


def size_of(connection: Connection, own: ColumnElement[bool]) -> tuple[int, int]:
    """Returns the number of distinct contents of a namespace, and its total size in bytes."""
    used = (
        select(parts.c.content_id)
        .select_from(parts.join(entries, parts.c.entry_id == entries.c.id))
        .where(own)
    )
    count, size = connection.execute(
        select(func.count(), func.coalesce(func.sum(_size(contents.c.size)), 0)).where(
            contents.c.id.in_(used)
        )
    ).one()
    frames = select(func.coalesce(func.sum(_size(entries.c.size)), 0)).where(own)
    return int(count), int(size) + int(connection.execute(frames).scalar_one())


def _size(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Returns a size as an integer. A damaged SQLite file can have any type in its place."""
    return func.coalesce(cast(column, BigInteger), 0)
