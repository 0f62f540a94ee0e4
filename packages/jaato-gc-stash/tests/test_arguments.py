"""Arguments that a caller gets wrong: every one is a `StashError` that says what was expected."""

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import Message, Role, StashError
from jaato_gc_stash import SqlStash

Open = Callable[..., SqlStash]


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


def test_a_limit_above_any_number_of_entries_returns_all_of_them(stash: SqlStash) -> None:
    stash.put("gc-1", [said(f"common {number}") for number in range(20)])

    for limit in (2**31, 2**63, 2**70):
        assert len(stash.search("common", limit)) == 20


@pytest.mark.parametrize("limit", [-1, -(2**70), math.nan, math.inf, 2.0, True, False, "3", None])
def test_a_limit_that_is_not_a_number_of_hits_is_refused(stash: SqlStash, limit: Any) -> None:
    stash.put("gc-1", [said("common")])

    with pytest.raises(StashError, match="limit: expected an integer of 0 or more, got "):
        stash.search("common", limit)


@pytest.mark.parametrize("value", [None, 5, b"bytes", ["list"]])
def test_a_value_that_is_not_text_is_refused(stash: SqlStash, value: Any) -> None:
    message = said("words")
    calls: dict[str, Callable[[], object]] = {
        "query: expected text": lambda: stash.search(value),
        "key: expected text": lambda: stash.get(value),
        "gc_id: expected text": lambda: stash.put(value, [message]),
        "messages: expected Messages": lambda: stash.put("gc-1", [message, value]),
        "agent: expected text": lambda: stash.for_agent(value),
        "also_read: expected": lambda: stash.for_agent("other", also_read=[value]),
        "url .*: expected a path or a URL": lambda: SqlStash(value),
    }
    for expected, call in calls.items():
        with pytest.raises(StashError, match=expected):
            call()
    for method in (stash.restore, stash.forget):
        with pytest.raises(StashError, match="key: expected text, got "):
            method([value])
    assert stash.stats().entries == 0


def test_a_single_key_instead_of_a_list_is_refused(stash: SqlStash) -> None:
    [key] = stash.put("gc-1", [said("words")])

    for method in (stash.restore, stash.forget):
        with pytest.raises(StashError, match="keys: expected a list of keys, got str"):
            method(key)
    assert stash.get(key)


def test_a_single_message_instead_of_a_list_is_refused(stash: SqlStash) -> None:
    with pytest.raises(StashError, match="messages: expected a list, got Message"):
        stash.put("gc-1", said("words"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        *(
            ("max_age", value, "expected a timedelta or seconds above 0")
            for value in (0, -1, timedelta(0), timedelta(-1), math.nan, True, "5")
        ),
        *(
            ("max_bytes", value, "expected an integer above 0")
            for value in (0, -1, 1.5, math.nan, math.inf, True, "5")
        ),
    ],
)
def test_a_limit_that_is_not_positive_is_refused(
    open_stash: Open, option: str, value: object, expected: str
) -> None:
    with pytest.raises(StashError, match=f"{option}: {expected}"):
        open_stash(**{option: value})


def test_a_limit_that_nothing_exceeds_has_no_effect(open_stash: Open) -> None:
    for options in ({"max_age": math.inf}, {"max_age": 10**400}, {"max_bytes": 2**70}):
        stash = open_stash(**options)
        keys = stash.put("gc-1", [said("one"), said("two")])
        assert len(stash.restore(keys)) == 2


@pytest.mark.parametrize("now", [math.nan, math.inf, 10**400, None, "now", True])
def test_nothing_is_stored_if_the_clock_does_not_return_a_time(open_stash: Open, now: Any) -> None:
    stash = open_stash(clock=lambda: now)

    with pytest.raises(StashError, match="clock: expected seconds since the epoch, got "):
        stash.put("gc-1", [said("words")])
    assert stash.stats().entries == 0


def test_the_path_of_a_stash_has_no_nul_characters(tmp_path: Path) -> None:
    with pytest.raises(StashError, match=r"url .*: expected a path or a URL as text without NUL"):
        SqlStash(f"{tmp_path}/a\0b")
