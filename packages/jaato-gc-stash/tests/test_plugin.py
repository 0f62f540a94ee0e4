"""The plugin that opens a stash if ``JAATO_GC_STASH`` is set."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jaato_gc import EstimateCounter, GCSession, Message, PluginRegistry, Role, StashError
from jaato_gc_stash import SqlStash, _stash
from jaato_gc_stash._open_database import open_database


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAATO_GC_STASH", "JAATO_GC_STASH_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def test_sessions_have_no_stash_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PluginRegistry().stash("main") is None
    monkeypatch.setenv("JAATO_GC_STASH", "")
    assert PluginRegistry().stash("main") is None


def test_every_agent_gets_its_own_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_STASH", str(tmp_path / "stash.db"))
    main, other = (PluginRegistry().stash(agent) for agent in ("main", "reviewer"))

    assert isinstance(main, SqlStash)
    assert isinstance(other, SqlStash)
    assert (main.project, main.agent, other.agent) == ("default", "main", "reviewer")
    [key] = main.put("gc-1", [Message.from_text(Role.USER, "words")])
    assert main.get(key)
    assert other.get(key) is None
    main.close()


def test_sessions_that_start_at_once_share_one_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_STASH", str(tmp_path / "stash.db"))
    opened: list[str] = []

    def counted(url: str) -> object:
        opened.append(url)
        return open_database(url)

    monkeypatch.setattr(_stash, "open_database", counted)
    registry, gate = PluginRegistry(), threading.Barrier(8)

    def start(number: int) -> object:
        gate.wait()
        return registry.stash(f"agent-{number}")

    with ThreadPoolExecutor(8) as pool:
        stashes = list(pool.map(start, range(8)))

    assert len(opened) == 1
    assert isinstance(stashes[0], SqlStash)
    stashes[0].close()


def test_the_project_is_read_from_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_STASH", str(tmp_path / "stash.db"))
    monkeypatch.setenv("JAATO_GC_STASH_PROJECT", "web")

    with PluginRegistry().stash("main") as stash:  # type: ignore[union-attr]
        assert stash.project == "web"


def test_a_session_is_not_created_if_its_stash_can_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_STASH", str(tmp_path))

    with pytest.raises(StashError, match="can't open it"):
        GCSession(counter=EstimateCounter())
