"""Opening a stash: paths and URLs, file modes, migrations and errors."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from jaato_gc import Message, Role, StashError
from jaato_gc.plugin import Stash
from jaato_gc_stash import SqlStash, _sqlite

Open = Callable[..., SqlStash]


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- files ---


def test_paths_and_urls_name_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with SqlStash("stash.db") as stash:
        [key] = stash.put("gc-1", [said("words")])

    absolute = tmp_path / "stash.db"
    for place in (
        absolute, str(absolute), "~/stash.db", "./stash.db",
        "sqlite:///stash.db", f"sqlite:///{absolute}", f"sqlite+pysqlite:///{absolute}",
    ):  # fmt: skip
        with SqlStash(place) as stash:
            assert stash.get(key), place
            assert isinstance(stash, Stash)


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX feature")
def test_new_files_and_folders_are_accessible_to_the_owner_only(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        path = tmp_path / "some" / "folder" / "stash.db"
        with SqlStash(path) as stash:
            stash.put("gc-1", [said("words")])
            files = {each.name: mode(each) for each in path.parent.iterdir()}
    finally:
        os.umask(previous)

    assert files == {"stash.db": 0o600, "stash.db-wal": 0o600, "stash.db-shm": 0o600}
    assert mode(path.parent) == mode(path.parent.parent) == 0o700
    assert mode(tmp_path) != 0


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX feature")
def test_the_mode_of_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"
    SqlStash(path).close()
    path.chmod(0o640)

    SqlStash(path).close()

    assert mode(path) == 0o640


def test_sqlite_syncs_every_commit_to_disk(tmp_path: Path) -> None:
    with (
        SqlStash(tmp_path / "stash.db") as stash,
        stash._database.reading("look") as connection,
    ):
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }

    assert settings == {
        "journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000,
    }  # fmt: skip


def test_postgresql_syncs_every_commit_to_disk_unless_it_is_stricter(postgres_url: str) -> None:
    def setting(stash: SqlStash) -> object:
        with stash._database.reading("look") as connection:
            return connection.execute(text("SHOW synchronous_commit")).scalar_one()

    with SqlStash(postgres_url) as stash:
        for chosen, used in (("off", "on"), ("remote_apply", "remote_apply")):
            with stash._database.engine.begin() as connection:
                name = stash._database.engine.url.database
                connection.execute(
                    text(f'ALTER DATABASE "{name}" SET synchronous_commit = {chosen}')
                )
            stash.close()
            assert setting(stash) == used


# --- versions ---

TO_VERSION_1 = {
    "sqlite": ["DROP TABLE stash_words"],
    "postgresql": ["ALTER TABLE stash_contents DROP COLUMN words"],
}


def test_an_older_database_is_migrated_when_it_is_opened(open_stash: Open) -> None:
    old = open_stash()
    messages = [said(f"old words {number}") for number in range(250)]
    keys = old.put("gc-1", messages)
    with old._database.engine.begin() as connection:
        for statement in TO_VERSION_1[connection.dialect.name]:
            connection.execute(text(statement))
        connection.execute(text("UPDATE stash_schema SET version = 1"))
    with pytest.raises(StashError):
        old.search("words")

    new = open_stash()

    assert new.restore(keys) == messages
    assert {hit.key for hit in new.search("old words", limit=1000)} == set(keys)
    [key] = new.put("gc-2", [said("new words")])
    assert key in [hit.key for hit in new.search("new words")]
    with new._database.reading("look") as connection:
        assert connection.execute(text("SELECT version FROM stash_schema")).scalars().all() == [2]


def test_a_migration_that_fails_changes_nothing(
    open_stash: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    stash = open_stash()
    [key] = stash.put("gc-1", [said("words")])
    with stash._database.engine.begin() as connection:
        for statement in TO_VERSION_1[connection.dialect.name]:
            connection.execute(text(statement))
        connection.execute(text("UPDATE stash_schema SET version = 1"))

    def fail(_body: bytes) -> str:
        raise RuntimeError("power failure")

    with monkeypatch.context() as patch:
        patch.setattr("jaato_gc_stash._tables.searchable_text", fail)
        with pytest.raises(RuntimeError, match="power failure"):
            open_stash()

    with stash._database.reading("look") as connection:
        assert connection.execute(text("SELECT version FROM stash_schema")).scalar_one() == 1
    assert [hit.key for hit in open_stash().search("words")] == [key]


def test_a_newer_database_is_refused(open_stash: Open) -> None:
    stash = open_stash()
    with stash._database.engine.begin() as connection:
        connection.execute(text("UPDATE stash_schema SET version = 99"))

    with pytest.raises(StashError, match=r"newer jaato-gc-stash \(version 99 .*: upgrade jaato"):
        open_stash()


# --- errors ---


def test_a_file_that_is_not_a_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, not a database. " * 100)

    with pytest.raises(StashError, match=r"notes.txt: can't open it: .*; this file is not an"):
        SqlStash(path)
    assert path.read_text().startswith("These are notes")


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"
    with SqlStash(path) as stash:
        keys = stash.put("gc-1", [said(f"{number} " * 1000) for number in range(50)])
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 60_000)

    with pytest.raises(StashError, match=r"stash.db: can't "), SqlStash(path) as stash:
        stash.restore(keys)


def test_a_path_that_is_a_folder_or_below_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StashError, match="can't open it"):
        SqlStash(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StashError, match=r"can't open it: .*; check that the folder exists"):
        SqlStash(tmp_path / "file" / "stash.db")


@pytest.mark.parametrize("place", ["", ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_an_in_memory_database_is_refused(place: str) -> None:
    with pytest.raises(StashError, match="a stash can't be an in-memory database"):
        SqlStash(place)


def test_sqlite_without_full_text_search_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "FULL_TEXT_MODULE", "no such module")

    with pytest.raises(StashError, match=r"has no full-text search \(FTS5\): use a Python"):
        SqlStash(tmp_path / "stash.db")


def test_a_put_fails_if_another_writer_does_not_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "_LOCK_TIMEOUT", 0.1)
    path = tmp_path / "stash.db"
    with SqlStash(path) as stash:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StashError, match="another process did not finish writing in time"):
            stash.put("gc-1", [said("words")])
        assert stash.search("words") == []  # readers don't wait for writers
        other.execute("ROLLBACK")
        other.close()
        stash.put("gc-1", [said("words")])


def test_opening_waits_for_a_process_that_is_creating_the_file(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.5, other.execute, ["ROLLBACK"])
    release.start()

    SqlStash(path).close()

    release.join()
    other.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "postgresql://agent:s3cret@127.0.0.1:1/x",
            "can't open it: .*; check that the server is running",
        ),
        ("postgresql://agent@127.0.0.1:1/x?password=s3cret", "can't open it"),
        ("postgresql://agent:s3cret@host:port/x", "invalid URL of a stash"),
        ("mysql://agent:s3cret@host/x", "unsupported database 'mysql'"),
        ("postgres+other://agent:s3cret@127.0.0.1:1/x", "can't open it"),
    ],
)
def test_errors_do_not_contain_the_password(url: str, message: str) -> None:
    with pytest.raises(StashError, match=message) as caught:
        SqlStash(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_missing_postgresql_database_is_an_error(postgres_server: str) -> None:
    with pytest.raises(StashError, match=r'"nowhere" does not exist; create it, or check the URL'):
        SqlStash(postgres_server.format(database="nowhere"))


def test_the_error_for_a_missing_driver_says_how_to_install_it() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from jaato_gc_stash import SqlStash
try:
    SqlStash("postgresql://agent:s3cret@host/x")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.strip() == (
        "StashError stash in PostgreSQL database x on host: psycopg is not installed: "
        "pip install 'jaato-gc-stash[postgres]'"
    )


def test_errors_do_not_contain_stashed_content(tmp_path: Path) -> None:
    with SqlStash(tmp_path / "stash.db") as stash:
        with stash._database.engine.begin() as connection:
            connection.execute(text("DROP TABLE stash_parts"))
        with pytest.raises(StashError) as caught:
            stash.put("gc-1", [said("confidential")])

    assert "confidential" not in str(caught.value)
    assert caught.value.__suppress_context__
