"""Damaged databases: a stash returns what it stored, or raises a `StashError`."""

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from jaato_gc import Message, Part, Role, StashError, ToolResult
from jaato_gc_stash import SqlStash

Open = Callable[..., SqlStash]


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


def execute(stash: SqlStash, statement: str, **parameters: Any) -> None:
    with stash._database.engine.begin() as connection:
        connection.execute(text(statement), parameters)


# --- rows ---

DAMAGE: Mapping[str, Mapping[str, Any]] = {
    "body": {
        "invalid UTF-8": b'{"text": "\xff\xfe"}',
        "invalid JSON": b'{"text": ',
        "another type": b"[1, 2]",
        "no text": b'{"text": 5}',
        "nothing": b"",
        "another text": b'{"text":"other words"}',
    },
    "frame": {
        "invalid UTF-8": b"\xff",
        "truncated": b'{"role":"user","par',
        "another type": b"null",
        "no parts": b'{"role":"user","message_id":"m"}',
        "too many parts": b'{"role":"user","message_id":"m","parts":[{},{}]}',
        "an unknown role": b'{"role":"editor","message_id":"m","parts":[{}]}',
    },
    "about": {"another text": "tool; result of nothing"},
    "gc_id": {"another text": "gc-2"},
    "stashed_at": {"another time": 5.0},
    "checksum": {"another checksum": "0" * 32},
}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        pytest.param(column, value, id=f"{column}: {name}")
        for column, values in DAMAGE.items()
        for name, value in values.items()
    ],
)
def test_a_damaged_row_is_an_error_and_does_not_hide_the_others(
    stash: SqlStash, column: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [said("first words"), said("words to damage"), said("last words")]
    [first, bad, last] = stash.put("gc-1", messages)
    table, where = ("stash_entries", "key = :key")
    if column == "body":
        table = "stash_contents"
        where = (
            "id = (SELECT content_id FROM stash_parts p JOIN stash_entries e ON e.id = p.entry_id "
            "WHERE e.key = :key)"
        )
    execute(stash, f"UPDATE {table} SET {column} = :value WHERE {where}", value=value, key=bad)

    for read in (lambda: stash.get(bad), lambda: stash.restore([first, bad, last])):
        with pytest.raises(StashError, match=f"damaged entries under {bad}: restore a backup"):
            read()
    assert stash.restore([first, last]) == [messages[0], messages[2]]
    with caplog.at_level(logging.WARNING, logger="jaato_gc"):
        assert {hit.key for hit in stash.search("words")} == {first, last}
    assert f"damaged entries under {bad}" in caplog.text
    assert stash.forget([bad]) == 1
    assert stash.get(bad) is None
    assert stash.stats().entries == 2


def test_an_entry_without_one_of_its_contents_is_an_error(stash: SqlStash) -> None:
    both = Message(Role.MODEL, [Part(text="one"), Part(text="two")])
    [key] = stash.put("gc-1", [both])
    execute(stash, "DELETE FROM stash_parts WHERE position = 1")

    with pytest.raises(StashError, match=f"damaged entries under {key}"):
        stash.get(key)


def test_an_entry_in_an_unknown_format_is_an_error_even_if_its_checksum_matches(
    stash: SqlStash, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr("jaato_gc_stash._stored_message._dump", lambda _: b'{"role":"editor"}')
        newer.setattr("jaato_gc_stash._namespace.words_to_index", lambda _: ["words"])
        newer.setattr("jaato_gc_stash._stored_message.searchable_text", lambda _: "words")
        [key] = stash.put("gc-1", [said("words")])

    with pytest.raises(StashError, match="if a newer release has written them, upgrade jaato-gc"):
        stash.get(key)
    assert stash.search("words") == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM stash_schema",
        "INSERT INTO stash_schema (version) VALUES (1)",
        "UPDATE stash_schema SET version = -1",
    ],
)
def test_a_database_without_a_valid_version_is_refused(open_stash: Open, statement: str) -> None:
    stash = open_stash()
    [key] = stash.put("gc-1", [said("words")])
    execute(stash, statement)

    with pytest.raises(StashError, match="expected one version in the table stash_schema, got "):
        open_stash()
    assert stash.get(key)


def test_a_version_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        execute(stash, "UPDATE stash_schema SET version = 'two'")

    with pytest.raises(StashError, match=r"got \['two'\]; the database is damaged: move it away"):
        SqlStash(tmp_path / "stash.db")


def test_a_damaged_content_does_not_prevent_a_migration(open_stash: Open) -> None:
    old = open_stash()
    [bad, good] = old.put("gc-1", [said("bad words"), said("good words")])
    drop = {
        "sqlite": "DROP TABLE stash_words",
        "postgresql": "ALTER TABLE stash_contents DROP COLUMN words",
    }
    execute(old, drop[old._database.engine.dialect.name])
    execute(old, "UPDATE stash_schema SET version = 1")
    execute(
        old,
        "UPDATE stash_contents SET body = :body WHERE id = (SELECT min(id) FROM stash_contents)",
        body=b"\xff",
    )

    new = open_stash()

    hits = {hit.key for hit in new.search("words")}
    assert hits < {bad, good}
    assert len(hits) == 1


@pytest.mark.parametrize("value", ["'many'", "x'ff'", "1.5"])
def test_a_damaged_size_does_not_prevent_a_put(tmp_path: Path, value: str) -> None:
    with SqlStash(tmp_path / "stash.db", max_bytes=100) as stash:
        stash.put("gc-1", [said(f"words {number}") for number in range(3)])
        for table in ("stash_entries", "stash_contents"):
            execute(stash, f"UPDATE {table} SET size = {value} WHERE id = 2")

        assert stash.restore(stash.put("gc-2", [said("new words")]))
        assert type(stash.stats().bytes) is int


def test_a_reference_to_a_missing_content_does_not_prevent_forgetting(tmp_path: Path) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        [first, second] = stash.put("gc-1", [said("one"), said("two")])
        with contextlib.closing(sqlite3.connect(tmp_path / "stash.db")) as other, other:
            other.execute("UPDATE stash_parts SET content_id = 'x' WHERE entry_id = 1")

        assert stash.forget([first, second]) == 2


# --- bytes ---


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Message]]:
    """The file of a stash, and its messages by key."""
    path = tmp_path_factory.mktemp("intact") / "stash.db"
    messages = [said(f"common words {number} {'filler ' * number * 5}") for number in range(25)]
    messages += [
        Message(Role.TOOL, [Part(function_response=ToolResult("1", "read", {"lines": [number]}))])
        for number in range(10)
    ]
    messages.append(said("large " * 10_000))
    with SqlStash(path, clock=lambda: 1000.0) as stash:
        keys = [key for message in messages for key in stash.put("gc-1", [message])]
    return path, dict(zip(keys, messages, strict=True))


@contextlib.contextmanager
def allowing_errors() -> Iterator[None]:
    with contextlib.suppress(StashError):
        yield


CHANGES = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8
)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=CHANGES)
def test_a_file_with_changed_bytes_gives_correct_answers_or_errors(
    intact: tuple[Path, dict[str, Message]], tmp_path: Path, changes: list[tuple[float, int]]
) -> None:
    source, messages = intact
    data = bytearray(source.read_bytes())
    for place, change in changes:
        data[int(place * len(data))] ^= change
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    path = tmp_path / "stash.db"
    path.write_bytes(data)

    with (
        allowing_errors(),
        SqlStash(path, clock=lambda: 1000.0, max_bytes=50_000) as stash,
    ):
        for key, message in messages.items():
            with allowing_errors():
                entry = stash.get(key)
                assert entry
                assert (entry.message, entry.gc_id, entry.stashed_at) == (message, "gc-1", 1000.0)
        with allowing_errors():
            assert stash.restore(list(messages)) == list(messages.values())
        with allowing_errors():
            for hit in stash.search("common filler read", limit=100):
                assert hit.about in ("user", "tool; result of read")
                assert hit.snippet.startswith(("common words", "read", "…"))
                assert messages[hit.key]
        with allowing_errors():
            stats = stash.stats()
            assert (type(stats.entries), type(stats.bytes)) == (int, int)
            assert isinstance(stats.oldest, float | None)
        with allowing_errors():
            new = said("new words")
            assert stash.restore(stash.put("gc-2", [new])) == [new]
        with allowing_errors():
            forgotten = list(messages)[:3]
            stash.forget(forgotten)
            assert [stash.get(key) for key in forgotten] == [None] * 3


def test_a_key_that_a_damaged_index_hides_is_an_error(
    intact: tuple[Path, dict[str, Message]], tmp_path: Path
) -> None:
    source, messages = intact
    key, message = next(iter(messages.items()))
    data = source.read_bytes()
    hidden = 0
    for at in (data.find(key.encode()), data.rfind(key.encode())):  # in the table and in the index
        path = tmp_path / f"{at}.db"
        path.write_bytes(data[:at] + b"z" + data[at + 1 :])
        with SqlStash(path) as stash:
            with contextlib.suppress(StashError):
                assert stash.restore([key]) == [message]
                continue
            hidden += 1
            for call in (lambda: stash.get(key), lambda: stash.forget([key])):
                with pytest.raises(StashError, match=r"entries is damaged: .*; move the file away"):
                    call()

    assert hidden == 1
