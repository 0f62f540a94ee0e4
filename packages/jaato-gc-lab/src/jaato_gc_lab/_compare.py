"""The whole grid: every transcript under every strategy in every window, on many processors."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jaato_gc import GCConfig, PluginRegistry, Role
from jaato_gc_formats import Conversation, FormatError, load
from jaato_gc_lab._prices import Prices, load_prices
from jaato_gc_lab._processes import interrupts_held_back, worker_pool
from jaato_gc_lab._replay import NONE, replay
from jaato_gc_lab._reports import ReplayReport


@dataclass(frozen=True, slots=True)
class Cell:
    """One replay of the grid.

    Args:
        path: The file.
        index: Which of its conversations, from 0 on.
        transcript: What that conversation is called.
        strategy: The strategy.
        limit: The window, in tokens.
    """

    path: str
    index: int
    transcript: str
    strategy: str
    limit: int


@dataclass(frozen=True, slots=True)
class CellResult:
    """What came of one replay: a report, or the reason why there is none."""

    cell: Cell
    report: ReplayReport | None = None
    error: str | None = None


Progress = Callable[[int, int, CellResult], None]
"""Told how many replays are done, of how many, and what came of the latest."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All transcripts under one strategy in one window.

    Args:
        strategy: The strategy.
        limit: The window, in tokens.
        transcripts: How many were replayed.
        failed: How many could not be.
        requests: How many requests they made.
        overflows: How many of these did not fit.
        violations: What a provider would have refused.
        collections: How many collections ran.
        input_tokens: Tokens of all requests together.
        cached_tokens: How many of them the provider could read from its cache.
        output_tokens: Tokens of all answers.
        cost: Money for all of that.
        lookup_cost: Money that looking up again what was lost would have cost on top, at least.
        currency: Of both.
        saving: The share of the money that is saved against collecting nothing; ``None`` if it is
            not known what that costs.
        losses: Names that were used after they were gone.
        names_used: Names that were used.
        rereads: Files that had to be read again.
        reread_tokens: Their tokens.
        seconds: Time spent collecting.
    """

    strategy: str
    limit: int
    transcripts: int
    failed: int
    requests: int
    overflows: int
    violations: int
    collections: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    lookup_cost: float
    currency: str
    saving: float | None
    losses: int
    names_used: int
    rereads: int
    reread_tokens: int
    seconds: float

    @property
    def total_cost(self) -> float:
        """Money, with looking up again what was lost."""
        return self.cost + self.lookup_cost

    @property
    def regret(self) -> float:
        """The share of used names that were gone, from 0 to 1."""
        return self.losses / self.names_used if self.names_used else 0.0


@dataclass(slots=True)
class Comparison:
    """What came of a grid.

    Args:
        strategies: The strategies, in the order in which they were given, the baseline first.
        limits: The windows, likewise.
        results: What came of every replay, by transcript, window and strategy.
        skipped: Files and conversations that could not be replayed at all, and why.
    """

    strategies: list[str]
    limits: list[int]
    results: list[CellResult] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def reports(self) -> list[ReplayReport]:
        """The reports that there are."""
        return [result.report for result in self.results if result.report is not None]

    @property
    def failures(self) -> list[CellResult]:
        """The replays that went wrong."""
        return [result for result in self.results if result.report is None]

    @property
    def failed(self) -> dict[str, str]:
        """Why replays went wrong, by transcript, strategy and window."""
        return {
            f"{each.cell.transcript}, {each.cell.strategy}, {each.cell.limit:,}": each.error or ""
            for each in self.failures
        }

    def reports_of(self, strategy: str, limit: int) -> dict[tuple[str, int], ReplayReport]:
        """The reports of one strategy in one window, by file and conversation."""
        return {
            (result.cell.path, result.cell.index): result.report
            for result in self.results
            if result.report and (result.cell.strategy, result.cell.limit) == (strategy, limit)
        }

    def summaries(self) -> list[Summary]:
        """One line for each window and strategy."""
        return [self.summary(name, limit) for limit in self.limits for name in self.strategies]

    def summary(self, strategy: str, limit: int) -> Summary:
        """The line of one strategy in one window."""
        own, baseline = self.reports_of(strategy, limit), self.reports_of(NONE, limit)
        reports = list(own.values())
        both = own.keys() & baseline.keys()
        before = sum(baseline[key].cost for key in sorted(both))
        after = sum(own[key].cost for key in sorted(both))
        cells = [each.cell for each in self.failures]

        def total(value_of: Callable[[ReplayReport], Any]) -> Any:
            return sum(map(value_of, reports))

        return Summary(
            strategy=strategy,
            limit=limit,
            transcripts=len(reports),
            failed=sum((cell.strategy, cell.limit) == (strategy, limit) for cell in cells),
            requests=total(lambda report: len(report.requests)),
            overflows=total(lambda report: report.overflows),
            violations=total(lambda report: len(report.violations)),
            collections=total(lambda report: len(report.collections)),
            input_tokens=total(lambda report: report.input_tokens),
            cached_tokens=total(lambda report: report.cached_tokens),
            output_tokens=total(lambda report: report.output_tokens),
            cost=total(lambda report: report.cost),
            lookup_cost=total(lambda report: report.lookup_cost),
            currency=reports[0].currency if reports else "",
            saving=1 - after / before if before else None,
            losses=total(lambda report: len(report.losses)),
            names_used=total(lambda report: report.names_used),
            rereads=total(lambda report: report.rereads),
            reread_tokens=total(lambda report: report.reread_tokens),
            seconds=total(lambda report: report.seconds),
        )


def compare(
    paths: Iterable[str | Path],
    strategies: Sequence[str] | None = None,
    limits: Sequence[int] = (128_000,),
    *,
    config: GCConfig | None = None,
    model: str | None = None,
    prices: Prices | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Comparison:
    """Replay every transcript under every strategy in every window, and under none to compare with.

    A replay that goes wrong is a result that says so; all others go on. Ctrl-C, or any error of
    ``on_progress``, cancels what has not begun and is raised again.

    The work is done by processes of this machine. Where that is not enough, give any executor, for
    example that of a Dask cluster, ``Client(…).get_executor()``. Jobs name files rather than carry
    messages, so every worker has to see the files under the same paths, and needs this package and
    the strategies installed.

    Args:
        paths: Files with transcripts, of any installed format; folders stand for all files in them.
        strategies: Names of strategies; all that are installed if not given.
        limits: Windows, in tokens.
        config: When to collect and how far.
        model: Whose prices count; the price table's default if not given.
        prices: The price table; the one that comes with this package if not given.
        executor: Where to run; it is left open. Processes of this machine if not given.
        workers: How many processes; one per processor if not given.
        on_progress: Told after every replay.

    Raises:
        GCPluginError: A strategy is not installed, or can't be used.
        GCConfigError: The price of the model is not known.
    """
    chosen = _canonical(strategies)
    table = prices or load_prices()
    name = table.known(model or table.default)
    only = Prices({name: table.by_model[name]}, name)  # all that a job needs
    comparison = Comparison([NONE, *chosen], list(dict.fromkeys(limits)))
    with worker_pool(executor, workers) as pool:
        transcripts = _survey(pool, find_files(paths), comparison.skipped)
        cells = [
            Cell(each.path, each.index, each.name, strategy, limit)
            for each in transcripts
            for limit in comparison.limits
            for strategy in comparison.strategies
        ]
        order = {cell: position for position, cell in enumerate(cells)}
        lengths = {(each.path, each.index): each.length for each in transcripts}
        # The longest first, so that no worker is left alone with one at the end.
        cells.sort(key=lambda cell: -lengths[cell.path, cell.index])
        _run(pool, cells, (config, only), comparison.results, on_progress)
    comparison.results.sort(key=lambda result: order[result.cell])
    return comparison


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """Files, in the order given; those in folders, at any depth, by name."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        inside = sorted(each for each in path.rglob("*") if each.is_file())
        found.update(dict.fromkeys(inside if path.is_dir() else [path]))
    return list(found)


def _canonical(strategies: Sequence[str] | None) -> list[str]:
    """The full names of strategies. Each is made once, so that a wrong one is noticed at once."""
    if strategies is None:
        return list(_registry().strategies())
    names = (name for name in strategies if name != NONE)
    return list(dict.fromkeys(_registry().create(name).name for name in names))


# --- running jobs ---


@dataclass(frozen=True, slots=True)
class _Transcript:
    path: str
    index: int
    name: str
    length: int


def _survey(pool: Executor, files: Sequence[Path], skipped: dict[str, str]) -> list[_Transcript]:
    """The conversations in some files."""
    found: dict[Path, list[int] | str] = {}

    def note(file: Path, future: Future[list[int]]) -> None:
        error = future.exception()
        found[file] = _explained(error) if error else future.result()

    _gather(pool, [(file, _lengths, (str(file),)) for file in files], note)
    names = [file.name for file in files]
    transcripts = []
    for file in files:
        name = file.name if names.count(file.name) == 1 else str(file)
        lengths = found[file]
        if isinstance(lengths, str):
            skipped[str(file)] = lengths
            continue
        for index, length in enumerate(lengths):
            own = f"{name}#{index + 1}" if len(lengths) > 1 else name
            if length:
                transcripts.append(_Transcript(str(file), index, own, length))
            else:
                skipped[own] = "no model has answered in it"
    return transcripts


def _run(
    pool: Executor,
    cells: Sequence[Cell],
    arguments: tuple[Any, ...],
    results: list[CellResult],
    on_progress: Progress | None,
) -> None:
    def note(cell: Cell, future: Future[CellResult]) -> None:
        error = future.exception()
        result = CellResult(cell, error=_explained(error)) if error else future.result()
        results.append(result)
        if on_progress:
            on_progress(len(results), len(cells), result)

    _gather(pool, [(cell, _play, (cell, *arguments)) for cell in cells], note)


def _gather(
    pool: Executor,
    jobs: Iterable[tuple[Any, Callable[..., Any], tuple[Any, ...]]],
    note: Callable[[Any, Future[Any]], None],
) -> None:
    """Submit jobs and take note of each as it ends."""
    futures = {_submit(pool, function, arguments): key for key, function, arguments in jobs}
    for future in as_completed(futures):
        note(futures[future], future)


def _submit(
    pool: Executor, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Future[Any]:
    try:
        with interrupts_held_back():
            return pool.submit(function, *arguments)
    except Exception as error:  # workers that died, say: the job has failed, and no more than that
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def _explained(error: BaseException) -> str:
    if isinstance(error, FormatError) and error.path is not None:
        # The file is named beside it.
        return error.what if error.line is None else f"line {error.line}: {error.what}"
    return f"{type(error).__name__}: {error}"


# --- what the workers do ---


def _lengths(path: str) -> list[int]:
    """How many messages each conversation of a file has; 0 where no model has answered."""
    return [
        len(messages) if any(message.role is Role.MODEL for message in messages) else 0
        for messages in (conversation.messages for conversation in _conversations(path))
    ]


def _play(cell: Cell, config: GCConfig | None, prices: Prices) -> CellResult:
    try:
        report = replay(
            _conversations(cell.path)[cell.index],
            cell.strategy,
            limit=cell.limit,
            config=config,
            name=cell.transcript,
            prices=prices,
            registry=_registry(),
        )
    except Exception as error:
        return CellResult(cell, error=_explained(error))
    return CellResult(cell, report)


def _conversations(path: str) -> list[Conversation]:
    status = Path(path).stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)  # jobs on the same file come one after the other
def _load(path: str, _changed: int, _size: int) -> list[Conversation]:
    return load(path, repair=True, registry=_registry())


@cache
def _registry() -> PluginRegistry:
    """The plugins of this process, looked for once."""
    return PluginRegistry()
