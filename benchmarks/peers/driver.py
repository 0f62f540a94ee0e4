"""Compares jaato-gc with other libraries: the same work in rounds, one contender after another.

    nox -s peers                      # makes the environments, runs this, writes the page
    nox -s peers -- --quick           # small sizes, nothing written

By itself it needs a folder with an environment for each name in ``peers.toml``:

    python benchmarks/peers/driver.py --environments FOLDER --only jaato_gc_budget --quick

In each round every contender does the same job once, and the fastest round counts. A contender that
fails or takes minutes has the error in its row and does not stop the others.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import goals
import tables
from results import Contestant, Measurement, Results
from worker_process import HERE, VARIABLES, WorkerProcess

SLOW_SECONDS = 12.0
"""A job that takes longer is done once."""
PATIENCE_SECONDS = 60.0
"""No further round after this time, preparations included."""
AGREEMENT = 1.05
"""Rounds go on until the two fastest differ by no more than this factor."""
MOST_ROUNDS = 12
BATCH_SECONDS, LARGEST_BATCH = 0.01, 20


@dataclass(frozen=True)
class Job:
    """A piece of work at several sizes."""

    name: str
    request: dict[str, Any]
    sizes: Sequence[int]


JOBS = (
    Job(tables.COLLECT_COLD, {"work": "collect", "warm": False}, tables.COLLECT_SIZES),
    Job(tables.COLLECT_WARM, {"work": "collect", "warm": True}, tables.COLLECT_SIZES),
    Job(tables.SESSION, {"work": "session"}, tables.SESSION_SIZES),
)
MEMORY_MESSAGES = 10_000
QUICK_SIZE = 1_000


class Contest:
    """A run.

    Args:
        environments: The folder with the environments.
        contenders: The modules of the contenders, each with the name of its environment.
        rounds: How often each job is done at least.
        largest: The largest size.
    """

    def __init__(
        self, environments: Path, contenders: dict[str, str], *, rounds: int, largest: int
    ) -> None:
        self.results = Results()
        self._environments = environments
        self._rounds = rounds
        self._largest = largest
        self._workers: dict[str, WorkerProcess] = {}
        for name, environment in contenders.items():
            self._workers[name] = WorkerProcess(name, self._python(environment))
            answer = {"name": name, **self._workers[name].start()}
            self.results.contestants[name] = Contestant(environment=environment, **answer)

    def run(self) -> Results:
        """Does all the work."""
        self.results.about = about(self._python(tables.OWN_ENVIRONMENT))
        try:
            for job in JOBS:
                self._run_job(job)
            self._measure_memory()
        finally:
            for worker in self._workers.values():
                worker.close()
        self._measure_imports()
        self._measure_own_costs()
        return self.results

    def _python(self, environment: str) -> Path:
        windows = self._environments / environment / "Scripts" / "python.exe"
        unix = self._environments / environment / "bin" / "python"
        return windows if windows.exists() else unix

    def _able(self) -> list[str]:
        """Returns the contenders that could be started."""
        return [name for name, each in self.results.contestants.items() if not each.error]

    def _one_per_environment(self) -> Iterable[str]:
        first: dict[str, str] = {}
        for name in self._able():
            first.setdefault(self.results.contestants[name].environment, name)
        return first.values()

    def _run_job(self, job: Job) -> None:
        for name in self._able():  # what is loaded or compiled on first use is not measured
            self._workers[name].ask({**job.request, "size": min(job.sizes), "batch": 1})
        for size in job.sizes:
            if size > self._largest:
                return
            progress(f"{job.name}, {size:,}")
            measurements = [Measurement(job.name, name, size) for name in self._able()]
            waiting = measurements
            while waiting:
                for measurement in waiting:
                    self._measure(job, measurement)
                waiting = [each for each in waiting if wants_another(each, self._rounds)]
            self.results.measurements += measurements

    def _measure(self, job: Job, measurement: Measurement) -> None:
        request = {**job.request, "size": measurement.size, "batch": batch_for(measurement)}
        start = time.perf_counter()
        answer = self._workers[measurement.contender].ask(request)
        measurement.waited += time.perf_counter() - start
        if "error" in answer:
            measurement.error = answer["error"]
            measurement.seconds.clear()
        elif "seconds" in answer:
            measurement.seconds.append(answer["seconds"])
            measurement.collections = answer["collections"]

    def _measure_memory(self) -> None:
        progress("memory")
        for name in self._one_per_environment():
            size = min(MEMORY_MESSAGES, self._largest)
            answer = self._workers[name].ask({"work": "memory", "size": size})
            if "bytes" in answer:
                self.results.memory[name] = answer
            elif "error" in answer:
                self.results.notes.append(f"memory of {name}: {answer['error']}")

    def _measure_imports(self) -> None:
        progress("imports")
        asked = {
            each.statement: (each.environment, each.statement, "")
            for each in self.results.contestants.values()
            if not each.error
        }
        asked |= {
            name: (tables.OWN_ENVIRONMENT, statement, before)
            for name, (statement, before) in goals.OWN_IMPORTS.items()
        }
        for _ in range(2 * self._rounds):
            for name, (environment, statement, before) in asked.items():
                seconds = time_statement(self._python(environment), statement, before)
                if seconds is not None:
                    self.results.imports.setdefault(name, []).append(seconds)

    def _measure_own_costs(self) -> None:
        progress("costs of this project alone")
        script = [str(HERE / "own_costs.py"), "--largest", str(10 * self._largest)]
        done = run_python(
            self._python(tables.OWN_ENVIRONMENT), *script, "--rounds", str(self._rounds)
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            self.results.notes.append(f"own_costs.py failed: {last}")
        else:
            self.results.own = json.loads(done.stdout)


def wants_another(measurement: Measurement, rounds: int) -> bool:
    """Returns whether a job is to be done once more."""
    fastest, *others = sorted(measurement.seconds) or [SLOW_SECONDS]
    if fastest >= SLOW_SECONDS or measurement.waited > PATIENCE_SECONDS:
        return False
    if len(others) + 1 < rounds:
        return True
    return bool(others) and others[0] > AGREEMENT * fastest and len(others) + 1 < MOST_ROUNDS


def batch_for(measurement: Measurement) -> int:
    """Returns how many runs are timed together: those that are short for the clock."""
    if not measurement.seconds:
        return 1
    return max(1, min(LARGEST_BATCH, int(BATCH_SECONDS / measurement.best)))


def time_statement(python: Path, statement: str, before: str) -> float | None:
    """CPU seconds of a statement in a fresh process, after another one."""
    clock = "time.process_time()"
    code = f"import time\n{before}\nstart = {clock}\n{statement}\nprint({clock} - start)"
    done = run_python(python, "-c", code)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def run_python(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs an interpreter where nothing can be imported by accident."""
    return subprocess.run(
        [str(python), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.anchor,
        env=VARIABLES,
    )


def read_contenders() -> dict[str, str]:
    """Returns the modules of the contenders, each with the name of its environment."""
    sections = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))
    return {name: section.get("environment", name) for name, section in sections.items()}


def about(python: Path) -> dict[str, str]:
    """Describes the machine, without anything that identifies it."""
    version = run_python(python, "-c", "import platform; print(platform.python_version())")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": version.stdout.strip(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def progress(message: str) -> None:
    """Prints what is done next."""
    print(f"{datetime.now():%H:%M:%S} {message}", file=sys.stderr, flush=True)


def main() -> None:
    """Runs the contest and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", help="names of contenders, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, no page")
    parser.add_argument("--results", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--again", action="store_true", help="use the figures in --results")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables into FILE")
    options = parser.parse_args()
    if options.quick:
        options.page = options.results = None
    if options.again:
        results = Results.load(options.results)
    else:
        contenders = read_contenders()
        if options.only:
            contenders = {name: contenders[name] for name in options.only.split(",")}
        results = Contest(
            options.environments.absolute(),
            contenders,
            rounds=1 if options.quick else options.rounds,
            largest=QUICK_SIZE if options.quick else max(tables.COLLECT_SIZES),
        ).run()
        if options.results:
            results.save(options.results)
    blocks = tables.blocks(results, goals.goals_table(results))
    if options.page:
        tables.write_page(options.page, blocks)
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in blocks.items()))


if __name__ == "__main__":
    main()
