"""Replays every transcript with every strategy in every window, in parallel."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from jaato_gc import GCConfig, PluginRegistry, Role
from jaato_gc_formats import Conversation, FormatError, load
from jaato_gc_lab._comparison import Cell, CellResult, Comparison
from jaato_gc_lab._contenders import CONTENDERS, KEEP_LAST, NONE
from jaato_gc_lab._overhead import Overhead
from jaato_gc_lab._prices import Prices, load_prices, refuse_several_currencies
from jaato_gc_lab._processes import sigint_blocked, worker_pool
from jaato_gc_lab._replay import replay

NO_ANSWER = "it contains no answer of a model"
"""Reason for skipping a conversation that has no request to replay."""

Progress = Callable[[int, int, CellResult], None]
"""Called after each replay with the number of finished replays, the total and the result."""


def compare(
    paths: Iterable[str | Path],
    strategies: Sequence[str] | None = None,
    context_limits: Sequence[int] = (128_000,),
    *,
    config: GCConfig | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    overhead: Overhead = "auto",
    executor: Executor | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """Replays every transcript with every strategy in every window.

    Every transcript is also replayed without collection and with `KEEP_LAST`.

    A failed replay is recorded in its result; the other replays continue. Ctrl-C or an error in
    ``on_progress`` cancels the pending replays and is raised.

    Replays run in local processes by default. Pass an executor to run them elsewhere, for example
    on a Dask cluster with ``Client(…).get_executor()``. Jobs refer to files by path, so every
    worker needs the files at the same paths, this package, and the strategies.

    Args:
        paths: Files with transcripts in any installed format, or folders that contain such files.
        strategies: Names of strategies and contenders; all installed strategies by default. The
            name ``all`` stands for these and all contenders.
        context_limits: Window sizes in tokens.
        config: Thresholds and other collection settings.
        model: Model whose prices apply; by default the one that each transcript names, or the
            default of the price table if it names none with a known price.
        prices: The price table; by default the bundled one.
        overhead: Tokens of every request that the logs do not show, as for `replay`.
        executor: Executor for the replays, which stays open. Local processes by default.
        workers: Number of local processes; by default one per processor.
        on_progress: Called after every replay.

    Raises:
        GCPluginError: A strategy is not installed or can't be used.
        GCConfigError: The price table has no price for the model, or the prices of the transcripts
            are in several currencies.
    """
    chosen = _canonical(strategies)
    table = prices or load_prices()
    table.choose(model, None)  # raises early if the model has no price
    comparison = Comparison([NONE, KEEP_LAST, *chosen], list(dict.fromkeys(context_limits)))
    with worker_pool(executor, workers) as pool:
        transcripts = _survey(pool, find_files(paths), comparison.skipped)
        priced = {each: table.choose(model, each.model) for each in transcripts}
        refuse_several_currencies(table.of(name).currency for name in priced.values())
        cells = [
            Cell(each.path, each.index, each.name, strategy, context_limit)
            for each in transcripts
            for context_limit in comparison.context_limits
            for strategy in comparison.strategies
        ]
        order = {cell: position for position, cell in enumerate(cells)}
        lengths = {(each.path, each.index): each.length for each in transcripts}
        # Longest first, so that no long replay runs alone at the end.
        cells.sort(key=lambda cell: -lengths[cell.path, cell.index])
        # Each job gets one price, which keeps the pickled jobs small.
        names = {(each.path, each.index): name for each, name in priced.items()}
        jobs = [
            (cell, config, model, table.only(names[cell.path, cell.index]), overhead)
            for cell in cells
        ]
        _run(pool, jobs, comparison.results, on_progress)
    comparison.results.sort(key=lambda result: order[result.cell])
    return comparison


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the given files, and the files in the given folders at any depth, without duplicates.

    Files keep the given order; the files of a folder are sorted by path.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        inside = sorted(each for each in path.rglob("*") if each.is_file())
        found.update(dict.fromkeys(inside if path.is_dir() else [path]))
    return list(found)


def name_files(files: Sequence[Path]) -> dict[Path, str]:
    """Returns the names of files, with only as many folders as are needed to tell them apart.

    Reports are published: a whole path would show more than the file that it identifies.
    """
    names: dict[Path, str] = {}
    for length in range(1, max((len(file.parts) for file in files), default=0) + 1):
        ends = {file: Path(*file.parts[-length:]) for file in files}
        occurrences = Counter(ends.values())
        for file, end in ends.items():
            if occurrences[end] == 1 or end == file:
                names.setdefault(file, str(end))
    return {file: names[file] for file in files}


def _canonical(strategies: Sequence[str] | None) -> list[str]:
    """Returns the full names of strategies and creates each once, to fail early on errors."""
    installed = list(_registry().strategies())
    if strategies is None:
        return installed
    chosen: list[str] = []
    for name in strategies:
        if name == "all":
            chosen += [*installed, *CONTENDERS]
        else:
            known = name in CONTENDERS or name == NONE
            chosen.append(name if known else _registry().create(name).name)
    return list(dict.fromkeys(name for name in chosen if name not in (NONE, KEEP_LAST)))


# --- running jobs ---


@dataclass(frozen=True, slots=True)
class _Transcript:
    path: str
    index: int
    name: str
    length: int
    model: str | None


def _survey(pool: Executor, files: Sequence[Path], skipped: dict[str, str]) -> list[_Transcript]:
    """Lists the conversations in files and records the files that can't be replayed."""
    found: dict[Path, list[_Content] | str] = {}

    def note(file: Path, future: Future[list[_Content]]) -> None:
        error = future.exception()
        found[file] = _explained(error) if error else future.result()

    _gather(pool, [(file, _contents, (str(file),)) for file in files], note)
    transcripts = []
    for file, name in name_files(files).items():
        contents = found[file]
        if isinstance(contents, str):
            skipped[name] = contents
            continue
        for index, (length, model) in enumerate(contents):
            own = f"{name}#{index + 1}" if len(contents) > 1 else name
            if length:
                transcripts.append(_Transcript(str(file), index, own, length, model))
            else:
                skipped[own] = NO_ANSWER
    return transcripts


def _run(
    pool: Executor,
    jobs: Sequence[tuple[Cell, *tuple[Any, ...]]],
    results: list[CellResult],
    on_progress: Progress | None,
) -> None:
    def note(cell: Cell, future: Future[CellResult]) -> None:
        error = future.exception()
        result = CellResult(cell, error=_explained(error)) if error else future.result()
        results.append(result)
        if on_progress:
            on_progress(len(results), len(jobs), result)

    _gather(pool, [(job[0], _replay_cell, job) for job in jobs], note)


def _gather(
    pool: Executor,
    jobs: Iterable[tuple[Any, Callable[..., Any], tuple[Any, ...]]],
    note: Callable[[Any, Future[Any]], None],
) -> None:
    """Submits jobs and calls ``note`` for each as it ends."""
    futures = {_submit(pool, function, arguments): key for key, function, arguments in jobs}
    for future in as_completed(futures):
        note(futures[future], future)


def _submit(
    pool: Executor, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Future[Any]:
    try:
        with sigint_blocked():
            return pool.submit(function, *arguments)
    except Exception as error:  # such as dead workers: only this job has failed
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def _explained(error: BaseException) -> str:
    if isinstance(error, FormatError) and error.path is not None:
        # Without the path, which is shown next to the message.
        return error.what if error.line is None else f"line {error.line}: {error.what}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


# --- functions that run in workers ---


class _Content(NamedTuple):
    """The number of messages in a conversation, or 0 without an answer, and its model."""

    length: int
    model: str | None


def _contents(path: str) -> list[_Content]:
    """Returns what each conversation in a file contains."""
    return [
        _Content(len(each.messages) if _has_answer(each) else 0, each.model)
        for each in _conversations(path)
    ]


def _has_answer(conversation: Conversation) -> bool:
    return any(message.role is Role.MODEL for message in conversation.messages)


def _replay_cell(
    cell: Cell, config: GCConfig | None, model: str | None, prices: Prices, overhead: Overhead
) -> CellResult:
    try:
        report = replay(
            _conversations(cell.path)[cell.index],
            cell.strategy,
            context_limit=cell.context_limit,
            config=config,
            name=cell.transcript,
            model=model,
            prices=prices,
            registry=_registry(),
            overhead=overhead,
        )
    except Exception as error:
        return CellResult(cell, error=_explained(error))
    return CellResult(cell, report)


def _conversations(path: str) -> list[Conversation]:
    status = Path(path).stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)  # jobs on the same file are consecutive
def _load(path: str, _changed: int, _size: int) -> list[Conversation]:
    return load(path, repair=True, registry=_registry())


@cache
def _registry() -> PluginRegistry:
    """Returns the plugin registry of this process, created once."""
    return PluginRegistry()
