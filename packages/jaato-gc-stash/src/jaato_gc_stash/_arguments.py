"""Validates what callers pass to a stash, so that every failure is a `StashError`."""

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from jaato_gc import Message, StashError


def storable_text(what: str, value: object) -> str:
    """Returns a text that every database accepts."""
    if not isinstance(value, str) or not is_storable(value):
        raise StashError(
            f"{what}: expected text without NUL characters and lone surrogates, got {value!a:.80}"
        )
    return value


def is_storable(text: str) -> bool:
    """Returns whether every database accepts a text.

    No database accepts lone surrogates, and PostgreSQL does not accept NUL characters.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def name(what: str, value: object) -> str:
    """Returns the name of a project or an agent."""
    if value == "":
        raise StashError(f"{what}: expected a name, got an empty text")
    return storable_text(what, value)


def names(what: str, values: Iterable[str]) -> list[str]:
    """Returns the names of agents. A single text is one name."""
    if isinstance(values, str):
        return [name(what, values)]
    if not isinstance(values, Iterable):
        raise StashError(f"{what}: expected names, got {values!a:.80}")
    return [name(what, each) for each in values]


def seconds(what: str, value: timedelta | float | None) -> float | None:
    """Returns a duration above 0 in seconds, or ``None``."""
    if value is None:
        return None
    number = _number(value.total_seconds() if isinstance(value, timedelta) else value)
    if not number > 0:  # also refuses NaN
        raise StashError(
            f"{what}: expected a timedelta or seconds above 0, or None, got {value!a:.80}"
        )
    return number


def size(what: str, value: int | None) -> int | None:
    """Returns a number of bytes above 0, or ``None``."""
    if value is None or (_is_integer(value) and value > 0):
        return value
    raise StashError(f"{what}: expected an integer above 0 or None, got {value!a:.80}")


def count(what: str, value: int) -> int:
    """Returns a number of results, which can be larger than a database accepts."""
    if _is_integer(value) and value >= 0:
        return value
    raise StashError(f"{what}: expected an integer of 0 or more, got {value!a:.80}")


def timestamp(value: object) -> float:
    """Returns what a clock returned, in seconds since the epoch."""
    number = _number(value)
    if not math.isfinite(number):
        raise StashError(f"clock: expected seconds since the epoch, got {value!a:.80}")
    return number


def key(value: str) -> str:
    """Returns a key, which can be any text."""
    if not isinstance(value, str):
        raise StashError(f"key: expected text, got {type(value).__name__}")
    return value


def keys(values: Iterable[str]) -> list[str]:
    """Returns keys as a list. A single text is refused: each character would be a key."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise StashError(f"keys: expected a list of keys, got {type(values).__name__}")
    return [key(each) for each in values]


def query(value: str) -> str:
    """Returns a query, which can be any text."""
    if not isinstance(value, str):
        raise StashError(f"query: expected text, got {type(value).__name__}")
    return value


def messages(values: Sequence[Message]) -> list[Message]:
    """Returns messages as a list."""
    if not isinstance(values, Iterable):
        raise StashError(f"messages: expected a list, got {type(values).__name__}")
    found = list(values)
    for each in found:
        if not isinstance(each, Message):
            raise StashError(f"messages: expected Messages, got {type(each).__name__}")
    return found


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> float:
    """Returns a number as a float, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
