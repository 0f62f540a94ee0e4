"""What a namespace is not to hold any longer."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from jaato_gc_stash._tables import contents, entries, parts


@dataclass(frozen=True)
class Limits:
    """How old and how much.

    Args:
        max_age: In seconds.
        max_bytes: Of all contents, each counted once, and the frames of all entries.
    """

    max_age: float | None
    max_bytes: int | None

    def surplus(
        self, connection: Connection, mine: ColumnElement[bool], now: float, new: Collection[str]
    ) -> list[int]:
        """The ids of entries that have to go, but never those under new keys.

        Args:
            connection: Where.
            mine: What chooses the entries of the namespace.
            now: The time.
            new: The keys that were just put.
        """
        doomed: set[int] = set()
        if self.max_age is not None:
            old = select(entries.c.id, entries.c.key).where(
                mine, entries.c.stashed_at < now - self.max_age
            )
            doomed.update(row.id for row in connection.execute(old) if row.key not in new)
        if self.max_bytes is not None and size_of(connection, mine)[1] > self.max_bytes:
            doomed.update(self._beyond_size(connection, mine, new, doomed))
        return sorted(doomed)

    def _beyond_size(
        self,
        connection: Connection,
        mine: ColumnElement[bool],
        new: Collection[str],
        doomed: Collection[int],
    ) -> list[int]:
        """All entries older than the newest ones that fit."""
        rows = connection.execute(
            select(
                entries.c.id,
                entries.c.key,
                entries.c.size,
                parts.c.content_id,
                contents.c.size.label("content_size"),
            )
            .select_from(
                entries.outerjoin(parts, parts.c.entry_id == entries.c.id).outerjoin(
                    contents, contents.c.id == parts.c.content_id
                )
            )
            .where(mine)
            .order_by(entries.c.stashed_at.desc(), entries.c.id.desc())
        ).all()
        # What was just put comes first, whatever the clock says.
        rows = sorted(rows, key=lambda row: row.key not in new)
        assert self.max_bytes is not None
        left = self.max_bytes
        seen: set[int] = set()
        contents_seen: set[int] = set()
        beyond: list[int] = []
        for row in rows:
            if row.id in doomed:
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


def size_of(connection: Connection, mine: ColumnElement[bool]) -> tuple[int, int]:
    """How many different contents some entries have, and the size of all that they hold."""
    used = (
        select(parts.c.content_id)
        .select_from(parts.join(entries, parts.c.entry_id == entries.c.id))
        .where(mine)
    )
    count, size = connection.execute(
        select(func.count(), func.coalesce(func.sum(contents.c.size), 0)).where(
            contents.c.id.in_(used)
        )
    ).one()
    frames = select(func.coalesce(func.sum(entries.c.size), 0)).where(mine)
    return int(count), int(size) + int(connection.execute(frames).scalar_one())
