"""The grid: on processes, on threads, on Dask; with failures in it, and interrupted."""

import gzip
import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from lab_runs import filler

from jaato_gc import GCConfig, GCConfigError, GCPluginError
from jaato_gc_lab import (
    CellResult,
    Comparison,
    ReplayReport,
    _processes,
    compare,
    find_files,
    replay,
    sample_path,
)
from jaato_gc_lab import _compare as module

CONFIG = GCConfig(preserve_recent_turns=1)


def chat(turns: int) -> list[dict[str, Any]]:
    return [
        message
        for number in range(turns)
        for message in (
            {"role": "user", "content": f"go on with src/part_{number}.py {filler(60)}"},
            {"role": "assistant", "content": f"src/part_{number // 2}.py then {filler(60)}"},
        )
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with one conversation, with two, with none that was answered, and with nothing."""
    (tmp_path / "one.json").write_text(json.dumps({"messages": chat(12)}))
    lines = [json.dumps({"messages": chat(turns)}) for turns in (2, 20)]
    inner = tmp_path / "more"
    inner.mkdir()
    (inner / "two.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (inner / "silent.json").write_text(json.dumps({"messages": chat(1)[:1]}))
    (inner / "other.json").write_text('{"this": "is no conversation"}')
    return tmp_path


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def timeless(comparison: Comparison) -> list[tuple[object, ReplayReport]]:
    """The results without what differs from run to run."""
    return [
        (
            result.cell,
            replace(
                result.report,
                seconds=0.0,
                collections=[replace(each, seconds=0.0) for each in result.report.collections],
            ),
        )
        for result in comparison.results
        if result.report
    ]


# --- the grid ---


def test_every_transcript_under_every_strategy_in_every_window(
    folder: Path, thread: Executor
) -> None:
    told: list[tuple[int, int]] = []

    comparison = compare(
        [folder], ["budget", "gc_truncate", "none"], [900, 2_000], config=CONFIG, executor=thread,
        on_progress=lambda done, total, _: told.append((done, total)),
    )  # fmt: skip

    assert comparison.strategies == ["none", "gc_budget", "gc_truncate"]
    cells = [result.cell for result in comparison.results]
    names = [cell.transcript for cell in cells]
    assert list(dict.fromkeys(names)) == ["two.jsonl.gz#1", "two.jsonl.gz#2", "one.json"]
    assert [(cell.limit, cell.strategy) for cell in cells[:6]] == [
        (limit, strategy) for limit in (900, 2_000) for strategy in comparison.strategies
    ]
    assert told == [(number, 18) for number in range(1, 19)]
    assert comparison.failures == []
    assert len(comparison.reports) == 18
    assert comparison.skipped["silent.json"] == "no model has answered in it"
    [other] = [why for name, why in comparison.skipped.items() if name.endswith("other.json")]
    assert other.startswith("nothing in it is a conversation")
    assert len(comparison.skipped) == 2


def test_summaries_add_up(folder: Path, thread: Executor) -> None:
    comparison = compare([folder], ["truncate"], [900], config=CONFIG, executor=thread)

    none, truncate = comparison.summaries()
    reports = list(comparison.reports_of("gc_truncate", 900).values())
    assert (none.strategy, truncate.strategy) == ("none", "gc_truncate")
    assert truncate.transcripts == len(reports) == 3
    assert truncate.requests == none.requests == 34
    assert truncate.input_tokens == sum(report.input_tokens for report in reports)
    assert truncate.cost == pytest.approx(sum(report.cost for report in reports))
    assert truncate.saving == pytest.approx(1 - truncate.cost / none.cost)
    assert truncate.losses == sum(len(report.losses) for report in reports) > 0
    assert truncate.regret == truncate.losses / truncate.names_used
    assert truncate.total_cost > truncate.cost
    assert truncate.overflows == 0 < none.overflows
    assert (none.saving, none.regret, none.collections) == (0, 0, 0)


def test_all_installed_strategies_are_compared_if_none_is_named(
    folder: Path, thread: Executor
) -> None:
    comparison = compare([folder / "one.json"], executor=thread)

    assert comparison.limits == [128_000]
    assert {"none", "gc_budget", "gc_marksweep"} <= set(comparison.strategies)


def test_files_of_the_same_name_are_told_apart(folder: Path, thread: Executor) -> None:
    (folder / "more" / "one.json").write_text((folder / "one.json").read_text())

    comparison = compare([folder], ["truncate"], [900], executor=thread)

    names = {result.cell.transcript for result in comparison.results}
    assert {str(folder / "one.json"), str(folder / "more" / "one.json")} < names


def test_files_are_found_in_folders_and_once(folder: Path) -> None:
    found = find_files([folder / "one.json", folder])

    assert [path.name for path in found] == [
        "one.json", "other.json", "silent.json", "two.jsonl.gz",
    ]  # fmt: skip


def test_the_model_decides_on_the_price(folder: Path, thread: Executor) -> None:
    one, other = (
        compare([folder / "one.json"], ["truncate"], [900], model=model, executor=thread)
        for model in ("gpt-5", "claude-opus-4-1")
    )

    assert one.reports[0].model == "gpt-5"
    assert one.summary("none", 900).cost < other.summary("none", 900).cost


def test_what_is_wrong_with_the_question_is_said_at_once(folder: Path) -> None:
    with pytest.raises(GCPluginError, match="unknown strategy 'nope'"):
        compare([folder], ["nope"])
    with pytest.raises(GCConfigError, match="price of model 'nope'"):
        compare([folder], ["truncate"], model="nope")


# --- where it runs ---


def test_own_processes_find_the_same(folder: Path, thread: Executor) -> None:
    arguments: dict[str, Any] = {"limits": [900], "config": CONFIG}

    own = compare([folder], ["truncate"], workers=1, **arguments)
    given = compare([folder], ["truncate"], executor=thread, **arguments)

    assert timeless(own) == timeless(given)
    assert pickle.loads(pickle.dumps(own)) == own


def test_a_given_executor_is_left_open(folder: Path, thread: Executor) -> None:
    compare([folder / "one.json"], ["truncate"], [900], executor=thread)

    assert thread.submit(len, "open").result() == 4


def test_the_grid_runs_on_dask(folder: Path, thread: Executor) -> None:
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://",
            host="127.0.0.1", dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
        client.get_executor() as executor,
    ):  # fmt: skip
        distributed = compare([folder], ["truncate"], [900], config=CONFIG, executor=executor)
    here = compare([folder], ["truncate"], [900], config=CONFIG, executor=thread)

    assert timeless(distributed) == timeless(here)
    assert len(distributed.reports) == 6


# --- when something goes wrong ---


def test_a_replay_that_fails_is_a_result_that_says_so(
    folder: Path, thread: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(transcript: Any, strategy: str, **arguments: Any) -> ReplayReport:
        if strategy == "gc_truncate":
            raise ValueError("no luck today")
        return replay(transcript, strategy, **arguments)

    monkeypatch.setattr(module, "replay", broken)

    comparison = compare([folder], ["truncate", "budget"], [900], executor=thread)

    assert len(comparison.results) == 9
    assert {result.error for result in comparison.failures} == {"ValueError: no luck today"}
    truncate, budget = comparison.summaries()[1:]
    assert (truncate.transcripts, truncate.failed, truncate.saving) == (0, 3, None)
    assert (budget.transcripts, budget.failed) == (3, 0)


def test_a_file_that_vanishes_fails_alone(folder: Path, thread: Executor) -> None:
    def remove(_done: int, _total: int, result: CellResult) -> None:
        if result.cell.transcript == "two.jsonl.gz#1":
            (folder / "one.json").unlink(missing_ok=True)

    comparison = compare(
        [folder], ["truncate"], [900], config=CONFIG, executor=thread, on_progress=remove
    )

    assert {result.cell.transcript for result in comparison.failures} <= {"one.json"}
    assert len(comparison.results) == 6


def test_workers_that_die_do_not_stop_the_grid(folder: Path) -> None:
    class Dying(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if fn is module._play:
                raise RuntimeError("the workers are gone")
            return super().submit(fn, *args, **kwargs)

    with Dying(1) as pool:
        comparison = compare([folder / "one.json"], ["truncate"], [900], executor=pool)

    assert [each.error for each in comparison.results] == ["RuntimeError: the workers are gone"] * 2


def test_ctrl_c_cancels_what_has_not_begun(folder: Path) -> None:
    begun: list[str] = []
    go_on = threading.Event()

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            def work() -> Any:
                begun.append(fn.__name__)
                if begun.count("_play") > 1:
                    go_on.wait(10)
                return fn(*args, **kwargs)

            return super().submit(work)

    def interrupt(_done: int, _total: int, _result: CellResult) -> None:
        raise KeyboardInterrupt

    with Slow(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            compare([folder], None, [900, 2_000], executor=pool, on_progress=interrupt)
        go_on.set()

    assert 1 <= begun.count("_play") <= 2


def test_ctrl_c_ends_own_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[ProcessPoolExecutor] = []

    class Watched(ProcessPoolExecutor):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            pools.append(self)

    def interrupt(_done: int, _total: int, _result: CellResult) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_processes, "ProcessPoolExecutor", Watched)
    with pytest.raises(KeyboardInterrupt):
        compare([folder], None, [900], workers=1, on_progress=interrupt)

    with pytest.raises(RuntimeError, match=r"after shutdown|not usable"):
        pools[0].submit(len, "")


def test_the_sample_can_be_compared(thread: Executor) -> None:
    comparison = compare([sample_path()], ["marksweep"], [32_000], executor=thread)

    [none, marksweep] = comparison.reports
    assert none.overflows > 0 == marksweep.overflows
    assert marksweep.violations == []
    assert marksweep.cost < none.cost
