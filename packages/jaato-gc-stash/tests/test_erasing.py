"""`forget` erases content from the bytes of the database, not only from its rows."""

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import FunctionCall, Message, Part, Role, StashError, ToolResult
from jaato_gc_stash import SqlStash, _sqlite


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


def crowd(count: int = 200) -> list[Message]:
    """Returns messages that fill several pages of the tables and of the index."""
    return [said(f"hunter{number} shares a password, {'filler ' * 50}") for number in range(count)]


def occurs(word: str, path: Path) -> list[str]:
    """Returns the files of a stash that contain a word, in any case."""
    files = [each for each in path.parent.iterdir() if each.name.startswith(path.name)]
    return [each.name for each in files if word.encode().lower() in each.read_bytes().lower()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stash.db"


@pytest.fixture
def stash(path: Path) -> Iterator[SqlStash]:
    with SqlStash(path) as stash:
        yield stash


def test_forget_leaves_no_word_in_the_files_of_a_stash(stash: SqlStash, path: Path) -> None:
    [key] = stash.put("gc-1", [said("the password is Xyzzy42plugh")])
    assert occurs("xyzzy42plugh", path)

    assert stash.forget([key]) == 1

    assert occurs("xyzzy42plugh", path) == []
    assert occurs("password", path) == []


def test_forget_erases_every_field_of_a_message(stash: SqlStash, path: Path) -> None:
    message = Message(
        Role.MODEL,
        [
            Part(thought="alphaword"),
            Part(function_call=FunctionCall("betaword", "gammaword", {"deltaword": "epsilonword"})),
            Part(function_response=ToolResult("1", "zetaword", ["etaword"]), extra={"a": "thetas"}),
        ],
        message_id="iotaword",
    )
    keys = stash.put("kappaword", [message])
    words = [
        "alphaword", "betaword", "gammaword", "deltaword", "epsilonword", "zetaword", "etaword",
        "thetas", "iotaword", "kappaword", keys[0],
    ]  # fmt: skip
    assert all(occurs(word, path) for word in words)

    stash.forget(keys)

    assert [word for word in words if occurs(word, path)] == []


def test_forget_erases_one_of_many_entries_that_share_words(stash: SqlStash, path: Path) -> None:
    kept = stash.put("gc-1", crowd())
    [key] = stash.put("gc-2", [said("hunter100 shares a password with Xyzzy42plugh")])
    kept += stash.put("gc-3", [said("another password")])

    stash.forget([key])

    assert occurs("xyzzy42plugh", path) == []
    assert len(stash.restore(kept)) == 201
    assert len(stash.search("password", limit=1000)) == 201
    assert [hit.key for hit in stash.search("hunter100")] == [kept[100]]


def test_content_is_erased_when_the_last_of_its_entries_is_forgotten(
    stash: SqlStash, path: Path
) -> None:
    other = stash.for_agent("other")
    [key] = stash.put("gc-1", [said("Xyzzy42plugh")])
    [other_key] = other.put("gc-1", [said("Xyzzy42plugh")])

    stash.forget([key])
    assert other.restore([other_key])[0].text == "Xyzzy42plugh"
    assert other.search("xyzzy42plugh")

    other.forget([other_key])
    assert occurs("xyzzy42plugh", path) == []


def test_forget_erases_content_that_was_stored_before_the_stash_was_opened(path: Path) -> None:
    with SqlStash(path) as stash:
        keys = stash.put("gc-1", [*crowd(), said("Xyzzy42plugh")])

    with SqlStash(path) as stash:
        stash.forget(keys[-1:])
        assert occurs("xyzzy42plugh", path) == []
    assert occurs("xyzzy42plugh", path) == []


def test_forget_erases_content_while_other_connections_are_open(path: Path) -> None:
    with SqlStash(path) as stash, SqlStash(path) as other:
        [key] = stash.put("gc-1", [said("Xyzzy42plugh")])
        assert other.search("xyzzy42plugh")
        with contextlib.closing(sqlite3.connect(path)) as third:
            third.execute("SELECT * FROM stash_contents").fetchall()

            stash.forget([key])

            assert occurs("xyzzy42plugh", path) == []
            assert other.get(key) is None
            assert third.execute("SELECT * FROM stash_contents").fetchall() == []


def test_forget_is_an_error_while_another_connection_reads_what_it_deletes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "_LOCK_TIMEOUT", 0.1)
    with SqlStash(path) as stash:
        [key] = stash.put("gc-1", [said("Xyzzy42plugh")])
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM stash_contents").fetchall()
            with pytest.raises(StashError, match=r"entries are deleted.*call forget\(\) again"):
                stash.forget([key])
            assert stash.get(key) is None
            reader.execute("COMMIT")

        assert stash.forget([key]) == 0

        assert occurs("xyzzy42plugh", path) == []


def test_forget_without_keys_to_delete_erases_what_limits_deleted(path: Path) -> None:
    now = 1_000_000.0
    with SqlStash(path, max_age=60, clock=lambda: now) as stash:
        [old] = stash.put("gc-1", [said("Xyzzy42plugh")])
        now += 61
        [new] = stash.put("gc-2", [said("something else")])
        assert stash.get(old) is None

        assert stash.forget([]) == 0

        assert occurs("xyzzy42plugh", path) == []
        assert stash.get(new)


def test_forget_erases_what_redaction_replaced(path: Path) -> None:
    message = said("Xyzzy42plugh")
    with SqlStash(path) as stash:
        stash.put("gc-1", [message])
    with SqlStash(path, redact=lambda each: each.with_parts([Part(text="hidden")])) as stash:
        [key] = stash.put("gc-2", [message])

        stash.forget([])

        assert occurs("xyzzy42plugh", path) == []
        assert stash.restore([key])[0].text == "hidden"


NUMBERS = st.integers(0, 60)


@settings(max_examples=20, deadline=None)
@given(
    puts=st.lists(st.lists(NUMBERS, min_size=1, max_size=30), min_size=1, max_size=8),
    forgets=st.lists(st.sets(NUMBERS), min_size=1, max_size=3),
)
def test_only_words_of_remaining_entries_are_in_the_files(
    puts: list[list[int]], forgets: list[set[int]]
) -> None:
    lengths = (1, 40, 2000)
    messages = [said(f"secret{number:02}x " * lengths[number % 3]) for number in range(61)]
    with tempfile.TemporaryDirectory() as folder, SqlStash(Path(folder) / "stash.db") as stash:
        keys: dict[int, str] = {}
        for number, put in enumerate(puts):
            new = stash.put(f"gc-{number}", [messages[each] for each in put])
            keys.update(zip(put, new, strict=True))

        for forgotten in forgets:
            stash.forget([keys.pop(number) for number in forgotten & keys.keys()])

        words = {number: f"secret{number:02}x" for number in range(61)}
        found = {number for number in words if occurs(words[number], Path(folder) / "stash.db")}
        assert found == keys.keys()


def test_postgresql_erases_forgotten_content_from_its_tables_when_they_are_rewritten(
    postgres_url: str, postgres_files: Path
) -> None:
    def tables_with(word: str) -> list[Path]:
        server.execute("CHECKPOINT")  # writes the server's memory to its files
        files = [each for each in (postgres_files / "base").rglob("*") if each.is_file()]
        return [each for each in files if word.encode() in each.read_bytes()]

    with (
        SqlStash(postgres_url) as stash,
        psycopg.connect(postgres_url, autocommit=True) as server,
    ):
        kept = stash.put("gc-1", crowd())
        [key] = stash.put("gc-2", [said("xyzzy42plugh")])
        assert tables_with("xyzzy42plugh")
        stash.forget([key])

        server.execute("VACUUM FULL stash_contents, stash_entries")

        assert tables_with("xyzzy42plugh") == []
        assert len(stash.restore(kept)) == 200
        assert len(stash.search("password", limit=1000)) == 200
