"""Deduplication, limits and redaction."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from jaato_gc import Message, Part, Role, StashError, ToolResult
from jaato_gc.plugin import stash_key
from jaato_gc_stash import SqlStash

Open = Callable[..., SqlStash]


def said(words: str, **fields: Any) -> Message:
    return Message.from_text(Role.USER, words, **fields)


def result(call_id: str, output: Any) -> Message:
    answer = ToolResult(call_id, "read_file", output)
    return Message(Role.TOOL, [Part(function_response=answer)])


def count(stash: SqlStash, table: str) -> int:
    with stash._database.reading("count") as connection:
        number: int = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
        return number


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


# --- deduplication ---


def test_the_same_tool_output_is_stored_once(stash: SqlStash) -> None:
    output = "line of a file\n" * 1000

    keys = stash.put("gc-1", [result(f"call_{number}", output) for number in range(5)])

    stats = stash.stats()
    assert (stats.entries, stats.contents) == (5, 1)
    assert stats.bytes < 2 * len(output)
    calls = [message.function_responses[0].call_id for message in stash.restore(keys)]
    assert calls == [f"call_{number}" for number in range(5)]


def test_parts_are_deduplicated_separately(stash: SqlStash) -> None:
    shared = Part(function_response=ToolResult("1", "read_file", "the same"))
    other = Part(function_response=ToolResult("2", "read_file", "another"))

    stash.put("gc-1", [Message(Role.TOOL, [shared]), Message(Role.TOOL, [other, shared])])

    assert (stash.stats().entries, stash.stats().contents) == (2, 2)


def test_content_shared_by_agents_is_deleted_when_the_last_one_forgets_it(stash: SqlStash) -> None:
    other = stash.for_agent("other")
    [key] = stash.put("gc-1", [result("1", "shared output")])
    [other_key] = other.put("gc-1", [result("2", "shared output")])
    assert count(stash, "stash_contents") == 1

    stash.forget()
    assert count(stash, "stash_contents") == 1
    assert other.get(other_key)
    assert [hit.key for hit in other.search("shared")] == [other_key]

    other.forget()
    assert count(stash, "stash_contents") == 0
    assert stash.get(key) is None


def test_putting_a_message_again_updates_its_time_and_collection(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(clock=clock)
    message = said("again")
    [key] = stash.put("gc-1", [message])
    clock.now += 10

    stash.put("gc-2", [message])

    entry = stash.get(key)
    assert entry
    assert (entry.gc_id, entry.stashed_at) == ("gc-2", clock.now)


def test_tuples_and_dict_keys_are_restored_as_their_json_equivalents(stash: SqlStash) -> None:
    [kept] = stash.restore(stash.put("gc-1", [result("1", ("a", {1: float("inf")}))]))

    assert kept.function_responses[0].result == ["a", {"1": float("inf")}]


def test_a_gc_id_that_can_not_be_stored_is_refused(stash: SqlStash) -> None:
    for gc_id in ("\0", "\ud800"):
        with pytest.raises(StashError, match="gc_id: expected text without NUL"):
            stash.put(gc_id, [said("words")])
    assert stash.stats().entries == 0


# --- limits ---


def test_entries_above_max_age_are_deleted_by_the_next_put(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(max_age=timedelta(hours=1), clock=clock)
    [old] = stash.put("gc-1", [said("old words")])
    clock.now += 1800
    [younger] = stash.put("gc-2", [said("younger words")])
    clock.now += 1801
    assert stash.get(old)

    [new] = stash.put("gc-3", [said("new words")])

    assert [key for key in (old, younger, new) if stash.get(key)] == [younger, new]
    assert {hit.key for hit in stash.search("words")} == {younger, new}
    assert count(stash, "stash_contents") == 2


def test_the_oldest_entries_are_deleted_above_max_bytes(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(max_bytes=10_000, clock=clock)
    keys = []
    for number in range(10):
        keys += stash.put("gc-1", [result("1", f"{number} " * 1000)])
        clock.now += 1

    assert [key for key in keys if stash.get(key)] == keys[-4:]
    assert stash.stats().bytes <= 10_000
    assert count(stash, "stash_contents") == 4


def test_no_more_entries_are_deleted_than_max_bytes_requires(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(clock=clock)
    for number in range(5):
        stash.put("gc-1", [said(f"{number} " * 100)])
        clock.now += 1
    exactly = stash.stats().bytes
    message = said("5 " * 100)

    open_stash(clock=clock, max_bytes=exactly).put("gc-2", [message])

    assert stash.stats().entries == 5
    assert stash.stats().bytes == exactly


def test_a_put_keeps_its_own_messages_even_if_they_exceed_the_limits(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(max_bytes=1000, max_age=1, clock=clock)
    stash.put("gc-1", [said("before")])
    clock.now -= 100  # a clock can be set back

    keys = stash.put("gc-2", [said(f"{number} " * 1000) for number in range(3)])

    assert len(stash.restore(keys)) == 3
    assert stash.stats().entries == 3


def test_content_of_a_deleted_entry_is_kept_if_a_newer_entry_shares_it(open_stash: Open) -> None:
    clock = Clock()
    stash = open_stash(clock=clock)
    [old] = stash.put("gc-1", [result("1", "shared output")])
    clock.now += 1
    [new] = stash.put("gc-2", [result("2", "shared output")])
    clock.now += 1
    last = said("last")
    stash.put("gc-3", [last])

    open_stash(max_bytes=stash.stats().bytes - 1, clock=clock).put("gc-3", [last])

    assert not stash.get(old)
    assert stash.restore([new])[0].function_responses[0].result == "shared output"
    assert [hit.key for hit in stash.search("shared")] == [new]


def test_limits_apply_to_each_agent_separately(open_stash: Open) -> None:
    stash = open_stash(max_bytes=3000)
    other = stash.for_agent("other")
    [mine] = stash.put("gc-1", [said("mine " * 400)])

    for number in range(3):
        other.put("gc-1", [said(f"{number} " * 1000)])

    assert stash.get(mine)
    assert other.stats().entries == 1


# --- redaction ---


def without_secrets(message: Message) -> Message:
    return message.with_parts(
        replace(part, text=(part.text or "").replace("hunter2", "[redacted]"))
        for part in message.parts
    )


def test_the_redacted_message_is_stored_under_the_key_of_the_original(open_stash: Open) -> None:
    stash = open_stash(redact=without_secrets)
    message = said("the password is hunter2")

    [key] = stash.put("gc-1", [message])

    assert key == stash_key(message)
    assert message.text == "the password is hunter2"
    entry = stash.get(key)
    assert entry
    assert entry.message.text == "the password is [redacted]"
    assert stash.search("hunter2") == []
    assert stash.search("redacted")
    with stash._database.reading("look") as connection:
        bodies = connection.execute(text("SELECT body FROM stash_contents")).scalars()
        assert not [body for body in bodies if b"hunter2" in bytes(body)]


def test_a_redacted_message_replaces_an_unredacted_one(open_stash: Open) -> None:
    message = said("the password is hunter2")
    open_stash().put("gc-1", [message])
    stash = open_stash(redact=without_secrets)

    [key] = stash.put("gc-2", [message])

    assert stash.restore([key])[0].text == "the password is [redacted]"
    assert stash.search("hunter2") == []
    assert count(stash, "stash_contents") == 1


def test_nothing_is_stored_if_redact_raises(open_stash: Open) -> None:
    def fail(message: Message) -> Message:
        if "bad" in message.text:
            raise RuntimeError("no idea")
        return message

    stash = open_stash(redact=fail)

    with pytest.raises(StashError, match=r"redact failed for message 'm2': RuntimeError: no idea"):
        stash.put("gc-1", [said("good"), said("bad", message_id="m2")])
    assert stash.stats().entries == 0


def test_nothing_is_stored_if_redact_does_not_return_a_message(open_stash: Open) -> None:
    stash = open_stash(redact=lambda message: message.text)

    with pytest.raises(StashError, match=r"redact for message .*: expected a Message, got str"):
        stash.put("gc-1", [said("words")])
    assert stash.stats().entries == 0
