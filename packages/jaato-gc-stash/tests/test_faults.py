"""Killed processes, full disks, and several at once. All of it real."""

import sqlite3
import subprocess
import sys
from pathlib import Path

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


def run_at_once(task: str, *arguments: tuple[object, ...]) -> list[list[str]]:
    """Several processes, that begin when all of them are ready."""
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


def test_nothing_acknowledged_is_lost_when_a_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"

    *lines, last = run("is_killed", path, 300, 45)

    # 300 on most machines: no test fails because one is slow.
    assert int(last.removeprefix("killed ")) >= 20
    acknowledged = dict(line.split(":") for line in lines)
    assert len(acknowledged) >= 10
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        # Each put is there whole or not at all, and whole means with all that belongs to it.
        sizes = "SELECT gc_id, count(*) FROM stash_entries GROUP BY gc_id"
        batches = dict(database.execute(sizes))
        assert set(batches.values()) == {3}
        for orphans in (
            "SELECT id FROM stash_entries WHERE id NOT IN (SELECT entry_id FROM stash_parts)",
            "SELECT id FROM stash_contents WHERE id NOT IN (SELECT content_id FROM stash_parts)",
            "SELECT id FROM stash_contents WHERE id NOT IN (SELECT rowid FROM stash_words)",
            "SELECT rowid FROM stash_words WHERE rowid NOT IN (SELECT id FROM stash_contents)",
        ):
            assert database.execute(orphans).fetchall() == []
        database.execute("INSERT INTO stash_words (stash_words) VALUES ('integrity-check')")
    database.close()
    assert acknowledged.keys() <= batches.keys()
    with SqlStash(path) as stash:
        for gc_id, keys in acknowledged.items():
            messages = stash.restore(keys.split(","))
            assert all(message.text.startswith(gc_id) for message in messages)
        assert stash.search("round batch large")


def test_two_processes_write_at_once(url: str) -> None:
    both = run_at_once("writes", (url, "main", 40), (url, "main", 40))

    with SqlStash(url) as stash:
        for keys in both:
            assert len(stash.restore(keys)) == 160
        assert stash.stats().entries == 320
        assert stash.search("common") == []
        with stash._database.reading("count") as connection:
            contents = "SELECT count(*) FROM stash_contents"
            assert connection.execute(text(contents)).scalar_one() == stash.stats().contents == 241


def test_two_agents_write_at_once_and_share_contents(url: str) -> None:
    both = run_at_once("writes", (url, "one", 40), (url, "two", 40))

    with SqlStash(url, agent="one") as stash:
        for agent, keys in zip(("one", "two"), both, strict=True):
            assert len(stash.for_agent(agent).restore(keys)) == 160
            assert stash.for_agent(agent).stats().entries == 160
        with stash._database.reading("count") as connection:
            contents = "SELECT count(*) FROM stash_contents"
            assert connection.execute(text(contents)).scalar_one() == 241


def test_several_processes_make_the_same_stash(url: str) -> None:
    results = run_at_once("opens", *[(url,)] * 4)

    with SqlStash(url) as stash:
        assert len(stash.restore([key for [key] in results])) == 4


def test_new_files_are_made_by_several_at_once_again_and_again(tmp_path: Path) -> None:
    assert run("opens_often", tmp_path, 8) == []


def test_a_fork_does_not_share_connections(url: str) -> None:
    assert run("forks", url) == ["3"]


def test_a_full_disk_is_an_error_and_nothing_is_half_stored(tmp_path: Path) -> None:
    path = tmp_path / "stash.db"

    refused = run("fills_up", path)

    [error] = refused
    assert error.startswith(f"stash {path}: can't store 30 messages: ")
    assert "make room on the disk" in error
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_a_full_database_is_an_error_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    large = [Message.from_text(Role.USER, "x" * 1_000_000)]
    with SqlStash(tmp_path / "stash.db") as stash:
        kept = stash.put("gc-1", [Message.from_text(Role.USER, "before")])
        engine = stash._database.engine
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 50")
        with pytest.raises(StashError, match="database or disk is full; make room on the disk"):
            stash.put("gc-2", large)
        assert stash.stats().entries == 1
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        kept += stash.put("gc-2", large)
        assert len(stash.restore(kept)) == 2


def test_a_lost_server_is_an_error_and_it_comes_back(postgres_url: str) -> None:
    message = Message.from_text(Role.USER, "words")
    with SqlStash(postgres_url) as stash:
        [key] = stash.put("gc-1", [message])
        end = text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND datname = current_database()"
        )
        with SqlStash(postgres_url) as other, other._database.reading("end") as connection:
            connection.execute(end).all()
        # The next one notices that its connection is gone, and takes another.
        assert stash.restore([key]) == [message]

        suicide = text("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(StashError, match="terminating connection"):
            stash._database.write("work", lambda each: each.execute(suicide), lock="some")
        assert stash.put("gc-2", [message]) == [key]
