"""Many threads that use one stash, or one database, at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jaato_gc import Message, Role
from jaato_gc_stash import SqlStash, _sqlite

Open = Callable[..., SqlStash]

THREADS = 20


def said(words: str) -> Message:
    return Message.from_text(Role.USER, words)


def in_threads(work: Callable[[int], list[str]]) -> list[str]:
    """Runs a function in many threads, which start at the same time. Returns their keys."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> list[str]:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return [key for keys in threads.map(run, range(THREADS)) for key in keys]


def use(stash: SqlStash, number: int) -> list[str]:
    """Calls every method of a stash. Returns the keys that remain."""
    kept: list[str] = []
    for turn in range(3):
        messages = [said(f"thread{number} turn{turn}"), said(f"turn{turn}"), said("common")]
        keys = stash.put(f"gc-{number}-{turn}", messages)
        assert stash.restore(keys) == messages
        assert stash.search(f"thread{number}", limit=1)
        assert stash.stats().entries >= len(kept)
        kept += keys[:2]
        assert stash.forget(keys[2:]) == 1
        assert stash.get(keys[2]) is None
    return kept


def test_twenty_threads_share_a_stash(stash: SqlStash) -> None:
    kept = in_threads(lambda number: use(stash, number))

    assert len(stash.restore(kept)) == len(set(kept)) == stash.stats().entries == 120
    assert stash.search("common") == []


def test_twenty_stashes_share_a_database(open_stash: Open) -> None:
    stashes = [open_stash() for _ in range(THREADS)]

    kept = in_threads(lambda number: use(stashes[number], number))

    assert len(stashes[0].restore(kept)) == len(set(kept)) == stashes[0].stats().entries == 120
    assert stashes[0].search("common") == []


def test_threads_of_twenty_agents_share_a_database(stash: SqlStash) -> None:
    agents = [stash.for_agent(f"agent {number}") for number in range(THREADS)]

    in_threads(lambda number: use(agents[number], number))

    assert [agent.stats().entries for agent in agents] == [6] * THREADS


@pytest.mark.parametrize("shared", [True, False], ids=["one stash", "a stash per thread"])
def test_threads_wait_for_each_other_longer_than_for_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(_sqlite, "_LOCK_TIMEOUT", 0.2)
    stashes = [SqlStash(tmp_path / "stash.db") for _ in range(1 if shared else THREADS)]

    def put(number: int) -> list[str]:
        stash = stashes[number % len(stashes)]
        return [
            key
            for turn in range(10)
            for key in stash.put(f"gc-{turn}", [said(f"{number} {turn} {'filler ' * 20_000}")])
        ]

    kept = in_threads(put)

    assert len(stashes[0].restore(kept)) == 10 * THREADS
    for stash in stashes:
        stash.close()
