"""Real faults: killed processes, full disks, lost servers and concurrent writers."""

import re
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from jaato_gc import Message, Role, StashError
from jaato_gc_stash import SqlStash

WRITERS = Path(__file__).parent / "writers.py"


def command(task: str, *arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", str(WRITERS), task, *map(str, arguments)]


def run(task: str, *arguments: object) -> list[str]:
    done = subprocess.run(command(task, *arguments), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_concurrently(task: str, *arguments: tuple[object, ...]) -> list[list[str]]:
    """Runs a task in several processes, which start working when all of them are ready."""
    processes = [
        subprocess.Popen(
            command(task, *each),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in arguments
    ]
    for process in processes:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    results = []
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        results.append(output.splitlines())
    return results


def test_a_file_that_is_deleted_while_it_is_open_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"
    stash = SqlStash(path)
    message = Message.from_text(Role.USER, "hello")
    [key] = stash.put("gc_1", [message])
    path.unlink()

    for use in (
        lambda: stash.put("gc_2", [message]),
        lambda: stash.get(key),
        lambda: stash.restore([key]),
        lambda: stash.forget([key]),
        lambda: stash.search("hello"),
    ):
        with pytest.raises(
            StashError, match="deleted or replaced while it was open; open the stash again"
        ):
            use()
    assert not path.exists()

    SqlStash(path)  # another one
    with pytest.raises(StashError, match="deleted or replaced"):
        stash.put("gc_2", [message])


ALL_ORPHANS = [
    "SELECT id FROM stash_entries WHERE id NOT IN (SELECT entry_id FROM stash_parts)",
    "SELECT id FROM stash_contents WHERE id NOT IN (SELECT content_id FROM stash_parts)",
]
ORPHANS = {
    "sqlite": [
        *ALL_ORPHANS,
        "SELECT id FROM stash_contents WHERE id NOT IN (SELECT rowid FROM stash_words)",
        "SELECT rowid FROM stash_words WHERE rowid NOT IN (SELECT id FROM stash_contents)",
    ],
    "postgresql": [*ALL_ORPHANS, "SELECT id FROM stash_contents WHERE words IS NULL"],
}
"""Queries that find rows of puts that were stored in part."""


def test_a_killed_writer_loses_no_acknowledged_put(url: str) -> None:
    # Connecting to a server takes longer than opening a file.
    kills, seconds = (300, 45) if url.startswith("sqlite") else (100, 20)

    *lines, last = run("kill_writers", url, kills, seconds)

    # Usually all of them; a slow machine reaches the time limit first.
    assert int(last.removeprefix("killed ")) >= 20
    acknowledged = dict(line.split(":") for line in lines)
    assert len(acknowledged) >= 10
    with SqlStash(url) as stash:
        with stash._database.reading("look") as connection:
            # Every put is stored completely or not at all, including contents and index.
            sizes = "SELECT gc_id, count(*) FROM stash_entries GROUP BY gc_id"
            batches = {row[0]: row[1] for row in connection.execute(text(sizes))}
            for orphans in ORPHANS[connection.dialect.name]:
                assert connection.execute(text(orphans)).all() == []
        assert set(batches.values()) == {3}
        assert acknowledged.keys() <= batches.keys()
        for gc_id, keys in acknowledged.items():
            messages = stash.restore(keys.split(","))
            assert all(message.text.startswith(gc_id) for message in messages)
        assert stash.search("round batch large")
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []
            database.execute("INSERT INTO stash_words (stash_words) VALUES ('integrity-check')")
        database.close()


def test_two_processes_write_concurrently(url: str) -> None:
    both = run_concurrently("write", (url, "main", 40), (url, "main", 40))

    with SqlStash(url) as stash:
        for keys in both:
            assert len(stash.restore(keys)) == 160
        assert stash.stats().entries == 320
        assert stash.search("common") == []
        with stash._database.reading("count") as connection:
            contents = "SELECT count(*) FROM stash_contents"
            assert connection.execute(text(contents)).scalar_one() == stash.stats().contents == 241


def test_two_agents_write_concurrently_and_share_contents(url: str) -> None:
    both = run_concurrently("write", (url, "one", 40), (url, "two", 40))

    with SqlStash(url, agent="one") as stash:
        for agent, keys in zip(("one", "two"), both, strict=True):
            assert len(stash.for_agent(agent).restore(keys)) == 160
            assert stash.for_agent(agent).stats().entries == 160
        with stash._database.reading("count") as connection:
            contents = "SELECT count(*) FROM stash_contents"
            assert connection.execute(text(contents)).scalar_one() == 241


def test_several_processes_create_the_same_stash(url: str) -> None:
    results = run_concurrently("open_and_put", *[(url,)] * 4)

    with SqlStash(url) as stash:
        assert len(stash.restore([key for [key] in results])) == 4


def test_concurrent_creation_of_the_same_file_succeeds_every_time(tmp_path: Path) -> None:
    assert run("create_concurrently", tmp_path, 8) == []


def test_a_forked_process_does_not_share_connections(url: str) -> None:
    assert run("use_across_fork", url) == ["3"]


def test_a_forked_process_does_not_wait_forever_for_a_thread_of_its_parent(url: str) -> None:
    assert run("fork_while_a_thread_writes", url) == []


def test_a_full_disk_is_an_error_and_no_put_is_stored_in_part(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"

    [error] = run("fill_disk", path)

    assert error.startswith(f"stash {path}: can't store 30 messages: ")
    assert re.search("free disk space|check the disk and its free space", error)
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_a_full_database_is_an_error_and_works_again_when_there_is_space(tmp_path: Path) -> None:
    large = [Message.from_text(Role.USER, "x" * 1_000_000)]
    with SqlStash(tmp_path / "stash.db") as stash:
        kept = stash.put("gc-1", [Message.from_text(Role.USER, "before")])
        engine = stash._database.engine
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 50")
        with pytest.raises(StashError, match="database or disk is full; free disk space"):
            stash.put("gc-2", large)
        assert stash.stats().entries == 1
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        kept += stash.put("gc-2", large)
        assert len(stash.restore(kept)) == 2


def test_a_stash_reconnects_after_the_server_closed_its_connections(postgres_url: str) -> None:
    message = Message.from_text(Role.USER, "words")
    with SqlStash(postgres_url) as stash:
        [key] = stash.put("gc-1", [message])
        terminate_others = text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND datname = current_database()"
        )
        with SqlStash(postgres_url) as other, other._database.reading("test") as connection:
            connection.execute(terminate_others).all()
        # An idle connection that was closed is replaced without an error.
        assert stash.restore([key]) == [message]

        # A connection that is closed during a transaction is an error.
        terminate_self = text("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(StashError, match="terminating connection"):
            stash._database.write("test", lambda each: each.execute(terminate_self), lock="test")
        assert stash.put("gc-2", [message]) == [key]


def test_a_put_whose_connection_is_lost_stores_nothing(postgres_url: str) -> None:
    messages = [Message.from_text(Role.USER, f"words {number}") for number in range(3)]
    with (
        SqlStash(postgres_url) as stash,
        psycopg.connect(postgres_url) as blocker,
        psycopg.connect(postgres_url, autocommit=True) as server,
        ThreadPoolExecutor(1) as thread,
    ):
        kept = stash.put("gc-1", messages[:1])
        # A put waits for this lock after it has written contents and entries.
        blocker.execute("LOCK TABLE stash_parts IN EXCLUSIVE MODE")
        lost = thread.submit(stash.put, "gc-2", messages)
        terminate = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not server.execute(terminate).fetchall():
            assert not lost.done()

        with pytest.raises(StashError, match=r"can't store 3 messages: .*terminating connection"):
            lost.result()

        blocker.rollback()
        assert stash.stats().entries == 1
        assert [entry and entry.gc_id for entry in map(stash.get, kept)] == ["gc-1"]
        for orphans in ORPHANS["postgresql"]:
            assert server.execute(orphans).fetchall() == []  # type: ignore[arg-type, unused-ignore]
        assert stash.restore(stash.put("gc-2", messages)) == messages
