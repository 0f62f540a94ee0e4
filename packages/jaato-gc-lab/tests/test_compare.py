"""Tests of compare: results, executors, failures and interrupts."""

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
from hypothesis import given
from hypothesis import strategies as st
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
from jaato_gc_lab._compare import name_files

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
    """Files with one conversation, two conversations, no answer, and no conversation."""
    (tmp_path / "one.json").write_text(json.dumps({"messages": chat(12)}))
    lines = [json.dumps({"messages": chat(turns)}) for turns in (2, 20)]
    inner = tmp_path / "more"
    inner.mkdir()
    (inner / "two.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (inner / "silent.json").write_text(json.dumps({"messages": chat(1)[:1]}))
    (inner / "other.json").write_text('{"this": "is not a conversation"}')
    return tmp_path


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def timeless(comparison: Comparison) -> list[tuple[object, ReplayReport]]:
    """Returns the results without times, which differ from run to run."""
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


# --- results ---


def test_every_transcript_is_replayed_with_every_strategy_in_every_window(
    folder: Path, thread: Executor
) -> None:
    progress: list[tuple[int, int]] = []

    comparison = compare(
        [folder], ["budget", "gc_truncate", "none"], [900, 2_000], config=CONFIG, executor=thread,
        on_progress=lambda done, total, _: progress.append((done, total)),
    )  # fmt: skip

    assert comparison.strategies == ["none", "keep-last", "gc_budget", "gc_truncate"]
    cells = [result.cell for result in comparison.results]
    names = [cell.transcript for cell in cells]
    assert list(dict.fromkeys(names)) == ["two.jsonl.gz#1", "two.jsonl.gz#2", "one.json"]
    assert [(cell.context_limit, cell.strategy) for cell in cells[:8]] == [
        (limit, strategy) for limit in (900, 2_000) for strategy in comparison.strategies
    ]
    assert progress == [(number, 24) for number in range(1, 25)]
    assert comparison.failures == []
    assert len(comparison.reports) == 24
    assert comparison.skipped["silent.json"] == "it contains no answer of a model"
    [other] = [why for name, why in comparison.skipped.items() if name.endswith("other.json")]
    assert "conversation" in other
    assert "other.json" not in other
    assert len(comparison.skipped) == 2


def test_names_have_only_the_folders_that_tell_files_apart(
    tmp_path: Path, thread: Executor
) -> None:
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(json.dumps({"messages": chat(2)}))
        (tmp_path / folder / f"{folder}.txt").write_text("no conversation", encoding="utf-8")

    paths = [tmp_path / "north", tmp_path / "south", tmp_path / "missing.json"]
    comparison = compare(paths, [], executor=thread)

    found = {report.transcript for report in comparison.reports}
    assert found == {str(Path("north", "run.json")), str(Path("south", "run.json"))}
    assert comparison.skipped.keys() == {"north.txt", "south.txt", "missing.json"}
    assert comparison.skipped["missing.json"] == "No such file or directory"
    assert not any(str(tmp_path) in reason for reason in comparison.skipped.values())


@given(st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple), min_size=1))
def test_every_file_has_its_own_name_that_ends_its_path(paths: set[tuple[str, ...]]) -> None:
    files = [Path("/logs", *path) for path in paths]

    names = name_files(files)

    assert list(names) == files
    assert len({*names.values()}) == len(files)
    assert all(str(file).endswith(name) for file, name in names.items())


def test_summaries_are_the_totals_of_the_reports(folder: Path, thread: Executor) -> None:
    comparison = compare([folder], ["truncate"], [900], config=CONFIG, executor=thread)

    none, keep_last, truncate = comparison.summaries()
    reports = list(comparison.reports_of("gc_truncate", 900).values())
    assert (none.strategy, truncate.strategy) == ("none", "gc_truncate")
    assert truncate.transcripts == len(reports) == 3
    assert truncate.requests == none.requests == 34
    assert truncate.input_tokens == sum(report.input_tokens for report in reports)
    assert truncate.cost == pytest.approx(sum(report.cost for report in reports))
    assert truncate.cost_ratio == pytest.approx(truncate.cost / keep_last.cost)
    assert (truncate.cost_pairs, keep_last.cost_ratio, none.cost_ratio) == (3, 1, None)
    assert truncate.names_lost == sum(len(report.losses) for report in reports) > 0
    assert truncate.lost_name_share == truncate.names_lost / truncate.names_used
    assert truncate.total_cost > truncate.cost
    assert truncate.overflows == 0 < none.overflows
    assert (truncate.refused, truncate.refused_after) == (0, None)
    assert none.refused == 2
    assert none.refused_after is not None
    assert 0 < none.refused_after < 1
    assert none.collections == 0


def test_all_installed_strategies_are_compared_by_default(folder: Path, thread: Executor) -> None:
    comparison = compare([folder / "one.json"], executor=thread)

    assert comparison.context_limits == [128_000]
    assert {"none", "gc_budget", "gc_marksweep"} <= set(comparison.strategies)


def test_files_with_the_same_name_are_shown_with_their_folder(
    folder: Path, thread: Executor
) -> None:
    (folder / "more" / "one.json").write_text((folder / "one.json").read_text())

    comparison = compare([folder], ["truncate"], [900], executor=thread)

    names = {result.cell.transcript for result in comparison.results}
    assert {str(Path(folder.name, "one.json")), str(Path("more", "one.json"))} < names


def test_find_files_searches_folders_and_returns_each_file_once(folder: Path) -> None:
    found = find_files([folder / "one.json", folder])

    assert [path.name for path in found] == [
        "one.json", "other.json", "silent.json", "two.jsonl.gz",
    ]  # fmt: skip


def test_prices_of_the_given_model_apply(folder: Path, thread: Executor) -> None:
    one, other = (
        compare([folder / "one.json"], ["truncate"], [900], model=model, executor=thread)
        for model in ("gpt-5", "claude-opus-4-1")
    )

    assert one.reports[0].model == "gpt-5"
    assert one.summary("none", 900).cost < other.summary("none", 900).cost


def test_unknown_strategy_and_model_are_errors_before_the_replays(folder: Path) -> None:
    with pytest.raises(GCPluginError, match="unknown strategy 'nope'"):
        compare([folder], ["nope"])
    with pytest.raises(GCConfigError, match="no price for model 'nope'"):
        compare([folder], ["truncate"], model="nope")


# --- executors ---


def test_local_processes_and_a_given_executor_produce_the_same_results(
    folder: Path, thread: Executor
) -> None:
    arguments: dict[str, Any] = {"context_limits": [900], "config": CONFIG}

    own = compare([folder], ["truncate"], workers=1, **arguments)
    given = compare([folder], ["truncate"], executor=thread, **arguments)

    assert timeless(own) == timeless(given)
    assert pickle.loads(pickle.dumps(own)) == own


def test_given_executor_stays_open(folder: Path, thread: Executor) -> None:
    compare([folder / "one.json"], ["truncate"], [900], executor=thread)

    assert thread.submit(len, "open").result() == 4


def test_comparison_runs_on_dask(folder: Path, thread: Executor) -> None:
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://",
            host="127.0.0.1", dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
        client.get_executor() as executor,
    ):  # fmt: skip
        distributed = compare([folder], ["truncate"], [900], config=CONFIG, executor=executor)
    local = compare([folder], ["truncate"], [900], config=CONFIG, executor=thread)

    assert timeless(distributed) == timeless(local)
    assert len(distributed.reports) == 9


# --- failures ---


def test_failed_replay_is_a_result_with_an_error(
    folder: Path, thread: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(transcript: Any, strategy: str, **arguments: Any) -> ReplayReport:
        if strategy == "gc_truncate":
            raise ValueError("replay failed")
        return replay(transcript, strategy, **arguments)

    monkeypatch.setattr(module, "replay", broken)

    comparison = compare([folder], ["truncate", "budget"], [900], executor=thread)

    assert len(comparison.results) == 12
    assert {result.error for result in comparison.failures} == {"ValueError: replay failed"}
    truncate, budget = comparison.summaries()[2:]
    assert (truncate.transcripts, truncate.failed, truncate.cost_ratio) == (0, 3, None)
    assert (budget.transcripts, budget.failed) == (3, 0)


def test_deleted_file_fails_only_its_own_replays(folder: Path, thread: Executor) -> None:
    def remove(_done: int, _total: int, result: CellResult) -> None:
        if result.cell.transcript == "two.jsonl.gz#1":
            (folder / "one.json").unlink(missing_ok=True)

    comparison = compare(
        [folder], ["truncate"], [900], config=CONFIG, executor=thread, on_progress=remove
    )

    assert {result.cell.transcript for result in comparison.failures} <= {"one.json"}
    assert len(comparison.results) == 9


def test_dead_workers_fail_replays_but_not_the_comparison(folder: Path) -> None:
    class Dying(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if fn is module._replay_cell:
                raise RuntimeError("all workers died")
            return super().submit(fn, *args, **kwargs)

    with Dying(1) as pool:
        comparison = compare([folder / "one.json"], ["truncate"], [900], executor=pool)

    assert [each.error for each in comparison.results] == ["RuntimeError: all workers died"] * 3


def test_ctrl_c_cancels_pending_replays(folder: Path) -> None:
    started: list[str] = []
    resume = threading.Event()

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            def work() -> Any:
                started.append(fn.__name__)
                if started.count("_replay_cell") > 1:
                    resume.wait(10)
                return fn(*args, **kwargs)

            return super().submit(work)

    def interrupt(_done: int, _total: int, _result: CellResult) -> None:
        raise KeyboardInterrupt

    with Slow(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            compare([folder], None, [900, 2_000], executor=pool, on_progress=interrupt)
        resume.set()

    assert 1 <= started.count("_replay_cell") <= 2


def test_ctrl_c_ends_local_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_marksweep_saves_cost_on_the_sample_run(thread: Executor) -> None:
    comparison = compare([sample_path()], ["marksweep"], [32_000], executor=thread)

    [none, _, marksweep] = comparison.reports
    assert none.overflows > 0 == marksweep.overflows
    assert marksweep.violations == []
    assert marksweep.cost < none.cost
