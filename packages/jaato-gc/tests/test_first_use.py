"""The first use of everything that is made lazily, from many threads at once."""

import importlib
import linecache
import logging
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

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
from jaato_gc.plugins import loading
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


INTERRUPTED = {
    "while it is imported": """
    from pathlib import Path

    started = Path(__file__ + ".started")
    if not started.exists():
        started.touch()
        raise KeyboardInterrupt
"""
    + PLUGIN,
    "while its hooks are read": PLUGIN
    + """
    interrupts = [KeyboardInterrupt()]

    @hookimpl
    def jaato_gc_register_formats():
        if interrupts:
            raise interrupts.pop()
        return []
""",
}
USES: dict[str, Callable[[PluginRegistry], object]] = {
    "all": PluginRegistry.plugins,
    "one strategy": lambda registry: registry.create("another"),
}


@pytest.mark.parametrize("source", INTERRUPTED.values(), ids=INTERRUPTED.keys())
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_an_interrupted_loading_continues_at_the_next_use(
    site: Path, use: Callable[[PluginRegistry], object], source: str
) -> None:
    install(site, "another", source.replace("gc_sample", "gc_another"))
    registry = PluginRegistry()
    with pytest.raises(KeyboardInterrupt):
        use(registry)
    assert registry.create("another").name == "gc_another"
    assert list(registry.strategies()) == ["gc_another", "gc_sample"]


def test_an_interrupt_at_any_line_of_the_loader_leaves_the_registry_usable(site: Path) -> None:
    install(site, "another", PLUGIN.replace("gc_sample", "gc_another"))
    lines_left = 0

    def interrupt(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines_left
        if frame.f_code.co_filename != loading.__file__:
            return None
        # A signal can't interrupt the assignment in `finally`: nothing is called there.
        line = linecache.getline(loading.__file__, frame.f_lineno).strip()
        lines_left -= event == "line" and line != "self._is_loading = False"
        if lines_left == 0:
            raise KeyboardInterrupt
        return interrupt

    for count in range(1, 1_000):
        registry = PluginRegistry()
        lines_left = count
        sys.settrace(interrupt)
        try:
            registry.create("sample")
            registry.strategies()
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        strategies = [registry.create(name).name for name in ("sample", "another")]
        assert strategies == ["gc_sample", "gc_another"], count
        assert list(registry.strategies()) == ["gc_another", "gc_sample"], count
        assert [plugin.name for plugin in registry.plugins()].count("sample") == 1, count
    assert 100 < count < 999


def test_threads_may_load_one_strategy_while_others_load_all_plugins(site: Path) -> None:
    install(site, "another", PLUGIN.replace("gc_sample", "gc_another"))
    registry = PluginRegistry()
    uses: list[Callable[[], object]] = [
        lambda: registry.create("sample").name,
        lambda: registry.create("another").name,
        lambda: list(registry.strategies()),
        lambda: registry.is_observed("jaato_gc_stash"),
    ]
    results = at_once(lambda number: uses[number % len(uses)]())
    expected = ["gc_sample", "gc_another", ["gc_another", "gc_sample"], True]
    assert results == expected * (THREADS // len(uses))
    assert [plugin.status for plugin in registry.plugins() if plugin.strategies] == ["ok", "ok"]


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
