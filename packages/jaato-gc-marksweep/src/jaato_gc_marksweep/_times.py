"""Ages, from times that may or may not name their zone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def as_utc(time: datetime) -> datetime:
    """The same moment in UTC. A time without a zone is taken to be in UTC already."""
    if time.tzinfo is UTC:
        return time
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time.astimezone(UTC)


def hours_since(times: Sequence[datetime], now: datetime) -> list[float]:
    """Hours from each time to *now*, which is in UTC; none if it is yet to come."""
    # Only *now* has to be in UTC: Python subtracts two times of one and the same zone as the
    # clocks there show them, which is wrong across a change of summer time.
    try:
        spans = [now - time for time in times]
    except TypeError:  # some name no zone: rare, and asking each time for it takes long
        spans = [now - (time if time.tzinfo else as_utc(time)) for time in times]
    return [hours if (hours := span.total_seconds() / 3600.0) > 0.0 else 0.0 for span in spans]


def as_timedelta(hours: float) -> timedelta:
    """The same as a `timedelta`; the longest there is, if it is longer."""
    try:
        return timedelta(hours=hours)
    except OverflowError:
        return timedelta.max


def is_within(time: datetime, limit: timedelta, now: datetime) -> bool:
    """Whether *time* is at most *limit* before *now*, which is in UTC."""
    # As `hours_since` would tell, at a fraction of the cost: most of that is making a number.
    if time.tzinfo is None:
        time = as_utc(time)
    return now - time <= limit
