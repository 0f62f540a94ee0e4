"""The first use of everything that is made lazily, from many threads at once."""

import importlib
import logging
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import pytest

from jaato_gc import (
    Confidence,
    GCSession,
    Message,
    PluginRegistry,
    Role,
    choose_counter,
    count_tokens,
    load_gc_plugin,
)
from jaato_gc.plugin import hookimpl
from jaato_gc.tokens import exact, message_tokens

T = TypeVar("T")
THREADS = 8


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Makes threads switch as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Returns the results of a function that threads call at the same time, each with a number."""
    gate = threading.Barrier(threads)

    def wait_and_work(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(wait_and_work, range(threads)))


PLUGIN = """
    from jaato_gc.plugin import StrategyInfo, hookimpl
    from jaato_gc_testing import COUNTER, MemoryStash, OldestFirst

    class Sample(OldestFirst):
        name = "gc_sample"

    @hookimpl
    def jaato_gc_register_strategies():
        return [StrategyInfo("gc_sample", Sample)]

    @hookimpl
    def jaato_gc_stash(agent_id):
        return MemoryStash()

    @hookimpl
    def jaato_gc_token_counter(model):
        return COUNTER
"""


def install(folder: Path, name: str = "sample", source: str = PLUGIN) -> None:
    """Installs a distribution with one plugin in a folder."""
    (folder / f"{name}_plugin.py").write_text(textwrap.dedent(source))
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: jaato-gc<1\n"
    )
    (information / "entry_points.txt").write_text(f"[jaato_gc]\n{name} = {name}_plugin\n")
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns a folder on the import path with one installed plugin."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JAATO_GC_LOAD_PLUGINS", "sample,another")
    yield tmp_path
    for module in ("sample_plugin", "another_plugin"):
        sys.modules.pop(module, None)


# --- the registry ---


@pytest.mark.usefixtures("site")
def test_many_threads_may_be_the_first_to_load_a_strategy() -> None:
    registry = PluginRegistry()
    strategies = at_once(lambda _: load_gc_plugin("sample", registry=registry))
    assert [each.name for each in strategies] == ["gc_sample"] * THREADS


@pytest.mark.usefixtures("site")
def test_sessions_that_start_at_once_have_the_stash_and_counter_of_their_plugins() -> None:
    registry = PluginRegistry()
    sessions = at_once(lambda _: GCSession(registry=registry))
    assert all(session.stash is not None for session in sessions)
    assert {session.budget.counter.name for session in sessions} == {"estimate"}


@pytest.mark.usefixtures("site")
def test_many_threads_may_be_the_first_to_notify_observers() -> None:
    registry = PluginRegistry()
    observed = at_once(lambda _: registry.is_observed("jaato_gc_stash"))
    assert observed == [True] * THREADS


def test_many_threads_may_register_plugins_at_once() -> None:
    class Observer:
        @hookimpl
        def jaato_gc_budget_updated(self) -> None: ...

    registry = PluginRegistry(load_installed=False)
    at_once(lambda number: registry.register(Observer(), f"observer {number}"))
    assert sorted(each.name for each in registry.plugins()) == [
        f"observer {number}" for number in range(THREADS)
    ]


def test_a_plugin_may_use_the_registry_while_it_is_loaded(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("sample_plugin")
    registry = PluginRegistry()
    monkeypatch.setattr(module, "registry", registry, raising=False)
    source = """
        import sample_plugin
        found = sample_plugin.registry.strategies()
    """
    install(site, "another", source)
    assert list(registry.strategies()) == ["gc_sample"]
    assert set(sys.modules["another_plugin"].found) <= {"gc_sample"}


def test_an_interrupted_loading_continues_at_the_next_use(site: Path) -> None:
    install(site, "another", "raise KeyboardInterrupt")
    registry = PluginRegistry()
    with pytest.raises(KeyboardInterrupt):
        registry.plugins()
    assert list(registry.strategies()) == ["gc_sample"]


# --- looking for plugins ---


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that grows whenever all installed distributions are read."""
    made: list[str] = []
    distributions = metadata.distributions

    def counted() -> object:
        made.append("scan")
        return distributions()

    monkeypatch.setattr(metadata, "distributions", counted)
    return made


@pytest.mark.usefixtures("site")
def test_registries_share_one_search_for_installed_plugins(scans: list[str]) -> None:
    for _ in range(5):
        assert "gc_sample" in PluginRegistry().strategies()
    assert scans == ["scan"]


def test_a_plugin_that_is_installed_later_is_found_by_a_new_registry(
    site: Path, scans: list[str]
) -> None:
    assert list(PluginRegistry().strategies()) == ["gc_sample"]
    install(site, "another", PLUGIN.replace("gc_sample", "gc_another"))
    assert list(PluginRegistry().strategies()) == ["gc_another", "gc_sample"]
    assert scans == ["scan", "scan"]


def test_a_plugin_on_a_new_import_path_is_found_by_a_new_registry(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(PluginRegistry().strategies()) == ["gc_sample"]
    folder = site / "more"
    folder.mkdir()
    install(folder, "another", PLUGIN.replace("gc_sample", "gc_another"))
    monkeypatch.syspath_prepend(folder)
    assert list(PluginRegistry().strategies()) == ["gc_another", "gc_sample"]


@pytest.mark.usefixtures("site")
def test_registries_of_one_process_do_not_share_the_state_of_a_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [broken] = [each for each in PluginRegistry().plugins() if each.name == "sample"]
    broken.fail(RuntimeError("only in this registry"))
    assert list(PluginRegistry().strategies()) == ["gc_sample"]
    monkeypatch.setenv("JAATO_GC_DISABLED_PLUGINS", "sample")
    assert list(PluginRegistry().strategies()) == []


# --- counting ---


class Doubling:
    """Counts characters, several times each."""

    confidence = Confidence.EXACT
    tolerance = 0.0

    def __init__(self, factor: int) -> None:
        self.factor = factor
        self.name = f"times-{factor}"

    def count_text(self, text: str) -> int:
        return self.factor * len(text)


def test_sessions_with_different_counters_may_share_messages() -> None:
    text = "x" * 100
    messages = [Message.from_text(Role.USER, text) for _ in range(2_000)]

    def wrong_counts(number: int) -> list[int]:
        counter = Doubling(number + 1)
        expected = 4 + counter.factor * len(text)
        counts = [message_tokens(message, counter) for message in messages]
        assert count_tokens(messages, counter) == expected * len(messages)
        return [count for count in counts if count != expected]

    assert at_once(wrong_counts, 4) == [[]] * 4


def test_the_advice_about_missing_ranks_is_logged_once_for_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.list_encoding_names", list)
    monkeypatch.setattr(exact, "_has_warned", threading.Lock())
    with caplog.at_level(logging.WARNING, logger="jaato_gc"):
        counters = at_once(lambda _: choose_counter("gpt-4o"))
    assert len(counters) == THREADS
    assert len(caplog.records) == 1
