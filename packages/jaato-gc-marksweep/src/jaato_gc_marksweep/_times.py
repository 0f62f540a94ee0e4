"""Compares times with and without a time zone."""

from datetime import UTC, datetime, timedelta


def utc_now() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(UTC)


def as_aware(time: datetime) -> datetime:
    """Returns a time with a time zone. A time without one is local, as ``datetime.now()`` is."""
    if time.tzinfo is not None:
        return time
    try:
        return time.astimezone()
    except (OverflowError, OSError, ValueError):
        # The platform knows no local time this long ago or ahead, such as datetime.min. The offset
        # does not matter there.
        return time.replace(tzinfo=UTC)


def time_between(earlier: datetime, later: datetime) -> timedelta:
    """Returns the time from one moment to another; negative if *earlier* is later."""
    # One of both in UTC: Python subtracts two times in the same zone by their local clock times,
    # which is wrong across a change to or from daylight saving time.
    return as_aware(later).astimezone(UTC) - as_aware(earlier)


def as_timedelta(hours: float) -> timedelta:
    """Converts hours to a `timedelta`, at most `timedelta.max`."""
    try:
        return timedelta(hours=hours)
    except OverflowError:
        return timedelta.max


def as_hours(span: timedelta) -> float:
    """Converts a time span to hours."""
    return span.total_seconds() / 3600
