"""Ages, from times that may or may not name their zone."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def as_utc(time: datetime) -> datetime:
    """The same moment in UTC. A time without a zone is taken to be in UTC already."""
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time.astimezone(UTC)


def hours_since(time: datetime, now: datetime) -> float:
    """Hours from *time* to *now*; negative if it is yet to come."""
    if not (time.tzinfo is now.tzinfo is UTC):
        # Not only because naive times can't be compared with others: Python subtracts two times of
        # one zone as the clocks there show them, which is wrong across a change of summer time.
        time, now = as_utc(time), as_utc(now)
    return (now - time).total_seconds() / 3600
