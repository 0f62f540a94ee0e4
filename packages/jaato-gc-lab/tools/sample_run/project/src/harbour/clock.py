"""Time in the harbour: UTC, the local zone, and the change between winter and summer.

The servers on the quay have no time zone database, so the rule of the European Union is
written out here: summer time lasts from the last Sunday in March to the last Sunday in
October, and changes at 01:00 UTC.
"""

from datetime import datetime, timedelta

WINTER_OFFSET = timedelta(hours=1)
SUMMER_OFFSET = timedelta(hours=2)
GRACE_MINUTES = 90
"""A call that is late by this much is still expected."""


def last_sunday(year: int, month: int) -> datetime:
    """Returns 01:00 UTC on the last Sunday of a month with 31 days."""
    day = datetime(year, month, 31, 1)
    return day - timedelta(days=(day.weekday() + 1) % 7)


def offset_at(moment: datetime) -> timedelta:
    """Returns the difference between local time and UTC at a moment in UTC."""
    begin, end = last_sunday(moment.year, 3), last_sunday(moment.year, 10)
    return SUMMER_OFFSET if begin <= moment < end else WINTER_OFFSET


def to_utc(local: datetime) -> datetime:
    """Converts local time to UTC. In the hour that occurs twice, the first is meant."""
    guess = local - SUMMER_OFFSET
    if offset_at(guess) == SUMMER_OFFSET:
        return guess
    return local - WINTER_OFFSET


def to_local(moment: datetime) -> datetime:
    """Converts UTC to local time."""
    return moment + offset_at(moment)


def local_now(utc_now: datetime) -> datetime:
    """Returns the local time at a moment in UTC, as the clock in the office shows it."""
    return to_local(utc_now)


def is_expired(arrival: datetime, now: datetime) -> bool:
    """Returns whether a call is so late that the vessel is no longer expected."""
    return arrival + timedelta(minutes=GRACE_MINUTES) < now


def parse_time(text: str) -> datetime:
    """Reads a local time as manifests write it, such as ``29.03.2026 02:30``."""
    try:
        return datetime.strptime(text.strip(), "%d.%m.%Y %H:%M")
    except ValueError:
        raise ValueError(f"invalid time {text!r}: expected DD.MM.YYYY HH:MM") from None


def format_time(moment: datetime) -> str:
    """Formats a moment in UTC as local time, for people."""
    return to_local(moment).strftime("%d.%m.%Y %H:%M")
