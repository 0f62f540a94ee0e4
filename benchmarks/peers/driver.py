"""All contenders side by side: the same work in rounds, interleaved, the best of several.

    nox -s peers                      # makes the environments, runs this, writes the page
    nox -s peers -- --quick           # small sizes, nothing written

By itself it needs a folder with an environment for each name in ``peers.toml``:

    python benchmarks/peers/driver.py --environments FOLDER --only jaato_gc_budget --quick

In each round every contender does the same job once. Absolute times on shared machines mean
little; ratios within a round do. A contender that took too long, or would at the next size by its
growth so far, is not asked for more; one that fails says so in its row and does not stop others.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import goals
import tables
from results import Contestant, Measurement, Results, expected_seconds

HERE = Path(__file__).parent
BASE_ENVIRONMENT = "jaato_gc"
CAP_SECONDS = 12.0
ANSWER_SECONDS = 1_800.0
PATIENCE_SECONDS = 120.0
"""After so long, preparations included, no further round: large sizes take long to make ready."""
FAST = 0.05
"""Below this, a job is done in more rounds."""
BATCH_SECONDS, LARGEST_BATCH = 0.01, 20


# Without the settings of Python in this shell, such as PYTHONDONTWRITEBYTECODE.
VARIABLES = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


@dataclass(frozen=True)
class Job:
    """A piece of work at several sizes."""

    name: str
    request: dict[str, Any]
    sizes: Sequence[int]
    once_per_environment: bool = False


COLLECT_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
SESSION_SIZES = (100, 1_000, 10_000, 100_000)
SAVE_SIZES = (1_000, 10_000)
JOBS = (
    Job("collect cold", {"work": "collect", "warm": False}, COLLECT_SIZES),
    Job("collect warm", {"work": "collect", "warm": True}, COLLECT_SIZES),
    Job("session", {"work": "session"}, SESSION_SIZES),
    Job("save", {"work": "save"}, SAVE_SIZES, once_per_environment=True),
    Job("restore", {"work": "restore"}, SAVE_SIZES, once_per_environment=True),
)
MEMORY_SIZES = (10_000,)
CONVERTED = 1_000


class Worker:
    """A contender in its own process, started when it is first asked.

    Args:
        contender: The name of its module.
        python: The interpreter of its environment.
    """

    def __init__(self, contender: str, python: Path) -> None:
        self.contender = contender
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        # Closed by `close`: it has to outlive the process that writes into it.
        self._said = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8", errors="replace"
        )

    def introduce(self) -> dict[str, Any]:
        """Start it; what it says of itself, or the error."""
        command = [str(self._python), str(HERE / "worker.py"), self.contender]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                encoding="utf-8",
                env=VARIABLES,
            )
        except OSError as error:
            return {"error": f"{type(error).__name__}: no environment for it"}
        return self._read()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let it do something; an error is an answer, too."""
        if self._process is None and "error" in (answer := self.introduce()):
            return answer
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            return self._ended()
        return self._read()

    def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
            self._process = None

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._said.close()

    def _read(self) -> dict[str, Any]:
        assert self._process
        assert self._process.stdout
        timer = threading.Timer(ANSWER_SECONDS, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            return self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> dict[str, Any]:
        self.stop()
        self._said.seek(0)
        lines = [line for line in self._said.read().splitlines() if line.strip()]
        return {"error": lines[-1].strip() if lines else "the process ended without a word"}


class Contest:
    """A run.

    Args:
        environments: The folder with the environments.
        contenders: Who takes part, with the name of the environment of each.
        rounds: How often each job is done.
        cap: Seconds that a job may take.
        largest: No size above this.
        file: Where all figures go, if anywhere: after each job, so that none is lost.
        known: Figures of a run that was broken off: what is in them is not measured again.
    """

    def __init__(
        self,
        environments: Path,
        contenders: dict[str, str],
        *,
        rounds: int,
        cap: float,
        largest: int,
        file: Path | None = None,
        known: Results | None = None,
    ) -> None:
        self.results = known or Results()
        self._file = file
        self._environments = environments
        self._rounds = rounds
        self._cap = cap
        self._largest = largest
        self._workers = {
            name: Worker(name, python_of(environments / environment))
            for name, environment in contenders.items()
        }
        for name, environment in contenders.items():
            said = self._workers[name].introduce()
            said.pop("python", None)
            self.results.contestants[name] = Contestant(
                **{"name": name, "environment": environment, **said}
            )

    def run(self) -> Results:
        """Do everything, one job after another."""
        python = python_of(self._environments / BASE_ENVIRONMENT)
        self.results.about = about(python, "nox -s peers")
        try:
            for job in JOBS:
                if any(each.work == job.name for each in self.results.measurements):
                    continue
                self._run_job(job)
                self._save()
            if not self.results.memory:
                self._measure_memory()
            if not self.results.conversions:
                self._measure_conversions()
            self._save()
        finally:
            for worker in self._workers.values():
                worker.close()
        if not self.results.imports:
            self._measure_imports()
            self._save()
        if not self.results.own:
            self._measure_own()
            self._save()
        if not self.results.segments:
            self._measure_segments()
            self._save()
        return self.results

    def _save(self) -> None:
        if self._file:
            self.results.save(self._file)

    def _sizes(self, sizes: Sequence[int]) -> list[int]:
        return [size for size in sizes if size <= self._largest]

    def _able(self, *, once_per_environment: bool) -> list[str]:
        """Who could be started; of each environment only the first, where they are the same."""
        found = [name for name, each in self.results.contestants.items() if not each.error]
        if not once_per_environment:
            return found
        first: dict[str, str] = {}
        for name in found:
            first.setdefault(self.results.contestants[name].environment, name)
        return list(first.values())

    def _run_job(self, job: Job) -> None:
        sizes = self._sizes(job.sizes)
        asked = self._able(once_per_environment=job.once_per_environment)
        for name in asked:  # what is loaded or compiled on first use is not what is measured
            self._workers[name].ask({**job.request, "size": sizes[0], "batch": 1})
        for size in sizes:
            asked = [name for name in asked if self._may_try(job, name, size)]
            progress(f"{job.name}, {size:,}: {len(asked)} contenders")
            measured = {name: Measurement(job.name, name, size) for name in asked}
            for turn in range(3 * self._rounds):
                for measurement in measured.values():
                    if wants_another(measurement, turn, self._rounds, self._cap):
                        self._measure(job, measurement)
            self.results.measurements += measured.values()
            asked = [name for name, each in measured.items() if each.seconds]

    def _may_try(self, job: Job, name: str, size: int) -> bool:
        """Whether a size is within reach. This project is asked for all of them."""
        if self.results.contestants[name].environment == BASE_ENVIRONMENT:
            return True
        before = self.results.of(job.name, name)
        return not before or expected_seconds(before, size) <= self._cap

    def _measure(self, job: Job, measurement: Measurement) -> None:
        batch = batch_for(measurement)
        request = {**job.request, "size": measurement.size, "batch": batch}
        start = time.perf_counter()
        answer = self._workers[measurement.contender].ask(request)
        measurement.waited += time.perf_counter() - start
        if "error" in answer:
            measurement.error = answer["error"]
            measurement.seconds.clear()
        elif "nothing" in answer:
            measurement.details = {"nothing": True}
        else:
            measurement.seconds.append(answer.pop("seconds"))
            measurement.details = answer

    def _measure_memory(self) -> None:
        for size in self._sizes(MEMORY_SIZES):
            for name in self._able(once_per_environment=True):
                progress(f"memory, {size:,}: {name}")
                answer = self._workers[name].ask({"work": "memory", "size": size})
                if "bytes" in answer:
                    self.results.memory[f"{name} {size}"] = answer
                elif "error" in answer:
                    self.results.notes.append(f"memory of {name}: {answer['error']}")

    def _measure_conversions(self) -> None:
        names = self._able(once_per_environment=True)
        for _ in range(3 * self._rounds):
            for name in names:
                answer = self._workers[name].ask({"work": "convert", "size": CONVERTED})
                best = self.results.conversions.setdefault(name, {})
                for conversion, speed in answer.get("conversions", {}).items():
                    best[conversion] = max(best.get(conversion, 0.0), speed)
        self.results.conversions = {k: v for k, v in self.results.conversions.items() if v}

    def _measure_imports(self) -> None:
        progress("imports")
        asked = {
            each.module: (each.environment, f"import {each.module}", "pass")
            for each in self.results.contestants.values()
            if each.module and not each.error
        }
        if "jaato_gc" in asked:
            asked |= {
                "pydantic, pluggy": (BASE_ENVIRONMENT, "import pydantic, pluggy", "pass"),
                goals.BEYOND: (BASE_ENVIRONMENT, "import jaato_gc", "import pydantic, pluggy"),
                goals.SESSION_BEYOND_MODELS: (
                    BASE_ENVIRONMENT,
                    "from jaato_gc import GCSession",
                    # Pydantic loads these late: `import pydantic` alone brings none of them.
                    "import pluggy; from pydantic import BaseModel, Field, model_validator",
                ),
            }
        for _ in range(self._rounds):
            for name, (environment, statement, before) in asked.items():
                python = python_of(self._environments / environment)
                seconds = time_statement(python, statement, before)
                if seconds is not None:
                    self.results.imports.setdefault(name, []).append(seconds)

    def _measure_own(self) -> None:
        progress("figures of our own")
        command = ["--largest", str(self._largest), "--rounds", str(self._rounds)]
        output = self._run_own(HERE / "own_figures.py", *command)
        if output is not None:
            self.results.own = json.loads(output)

    def _measure_segments(self) -> None:
        progress("mark and plan")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "segments.json")
            largest = max(1_000, self._largest)
            script = HERE.parent / "mark_and_sweep.py"
            self._run_own(script, "--max", str(largest), "--json", str(path))
            if path.exists():
                self.results.segments = json.loads(path.read_text(encoding="utf-8"))

    def _run_own(self, script: Path, *arguments: str) -> str | None:
        """A script of this project in its own environment; what it printed."""
        python = python_of(self._environments / BASE_ENVIRONMENT)
        if not python.exists():
            self.results.notes.append(f"{script.name}: no environment for it")
            return None
        done = subprocess.run(
            [str(python), str(script), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=VARIABLES,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word why"])[-1]
            self.results.notes.append(f"{script.name} failed: {last}")
            return None
        return done.stdout


def wants_another(measurement: Measurement, turn: int, rounds: int, cap: float) -> bool:
    """Whether a job is to be done once more: fast ones in more rounds, slow or failed ones not."""
    if measurement.error or measurement.details.get("nothing"):
        return False
    if not measurement.seconds:
        return True
    if measurement.waited > PATIENCE_SECONDS:
        return False
    return measurement.best < (cap if turn < rounds else FAST)


def batch_for(measurement: Measurement) -> int:
    """How many runs the clock should see as one, so that its grain does not matter."""
    if not measurement.seconds:
        return 1
    return max(1, min(LARGEST_BATCH, int(BATCH_SECONDS / measurement.best)))


def time_statement(python: Path, statement: str, before: str) -> float | None:
    """Seconds that a statement takes in a fresh process, after another one."""
    code = (
        f"import time\n{before}\nstart = time.perf_counter()\n{statement}\n"
        "print(time.perf_counter() - start)"
    )
    done = subprocess.run(
        [str(python), "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.anchor,
        env=VARIABLES,
    )
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def python_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    windows = environment / "Scripts" / "python.exe"
    return windows if windows.exists() else environment / "bin" / "python"


def read_contenders() -> dict[str, str]:
    """Every contender with the name of its environment; its own, unless it shares one."""
    sections = tomllib.loads((HERE / "peers.toml").read_text(encoding="utf-8"))
    return {name: section.get("environment", name) for name, section in sections.items()}


def about(python: Path, command: str) -> dict[str, str]:
    """Machine, date and command: nothing that says whose machine it is."""
    version = subprocess.run(
        [str(python), "-c", "import platform; print(platform.python_version())"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": version or platform.python_version(),
        "tokenizer": "tiktoken cl100k_base",
        "command": command,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"


def progress(said: str) -> None:
    """Tell how far it is."""
    print(f"{datetime.now():%H:%M:%S} {said}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the contest, and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--environments", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", help="names of contenders, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cap", type=float, default=CAP_SECONDS, metavar="SECONDS")
    parser.add_argument("--largest", type=int, default=max(COLLECT_SIZES), metavar="SIZE")
    parser.add_argument("--quick", action="store_true", help="up to 1,000, one round, no page")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where all figures go")
    parser.add_argument("--go-on", action="store_true", help="with the figures in --results")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page to write tables into")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.largest, options.page = 1, 1_000, None
    contenders = read_contenders()
    if options.only:
        contenders = {name: contenders[name] for name in options.only.split(",")}
    contest = Contest(
        options.environments.absolute(),  # imports are timed elsewhere
        contenders,
        rounds=options.rounds,
        cap=options.cap,
        largest=options.largest,
        file=options.results,
        known=Results.load(options.results) if options.go_on else None,
    )
    results = contest.run()
    written = tables.figures(results, goals.goals_table(results))
    if options.page:
        tables.write_page(options.page, written)
    else:
        print(written)


if __name__ == "__main__":
    main()
