"""Computes ages from times with and without a time zone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def utc_now() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(UTC)


def as_utc(time: datetime) -> datetime:
    """Converts a time to UTC. A time without a time zone is assumed to be in UTC."""
    if time.tzinfo is UTC:
        return time
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    return time.astimezone(UTC)


def hours_since(times: Sequence[datetime], now: datetime) -> list[float]:
    """Returns the hours from each time to *now* (in UTC); 0 for times in the future."""
    # *now* has to be in UTC: Python subtracts two times in the same zone by their local clock
    # times, which is wrong across a change to or from daylight saving time.
    try:
        spans = [now - time for time in times]
    except TypeError:  # a time without a zone; this is rare, and checking each one first is slow
        spans = [now - (time if time.tzinfo else as_utc(time)) for time in times]
    return [hours if (hours := span.total_seconds() / 3600.0) > 0.0 else 0.0 for span in spans]


def as_timedelta(hours: float) -> timedelta:
    """Converts hours to a `timedelta`, at most `timedelta.max`."""
    try:
        return timedelta(hours=hours)
    except OverflowError:
        return timedelta.max


def is_within(time: datetime, limit: timedelta, now: datetime) -> bool:
    """Returns whether *time* is at most *limit* before *now* (in UTC)."""
    # Equivalent to `hours_since`, but faster, because no age in hours is computed.
    if time.tzinfo is None:
        time = as_utc(time)
    return now - time <= limit
