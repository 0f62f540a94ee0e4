"""Compares two installed versions of jaato-gc: what they collect, and how fast they are.

    python benchmarks/two_versions.py --old OLD/bin/python --new NEW/bin/python --collected
    python benchmarks/two_versions.py --old OLD/bin/python --new NEW/bin/python --speed

Each version is in an environment of its own, with the strategies and jaato-gc-formats. This script
needs only the standard library; the scripts in `versions` run inside the environments.

`--collected` replays every recorded run with each strategy and compares each collection: trigger,
outcome, tokens, removal list in order, and every message of the resulting history. Wording of
errors, details and times are not compared. The exit code is 1 if anything differs, 2 if a version
can't run.

`--speed` measures both versions in turns, each time in a fresh process, in CPU time: other work on
the machine changes it less than elapsed time.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

HERE = Path(__file__).parent
REPLAY_RUNS = str(HERE / "versions" / "replay_runs.py")
MEASURE = str(HERE / "versions" / "measure.py")
# Settings in the environment of the caller must not reach one of the versions.
VARIABLES = {
    key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "JAATO_GC_"))
}
COMPLETE = "end of the run"
Record = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """One of the two versions, by the interpreter of its environment."""

    name: str
    python: Path

    def run(self, *arguments: str, output: IO[bytes] | None = None) -> str:
        """Runs a Python command; returns what it prints, unless that goes to a file.

        Raises:
            SystemExit: The command failed.
        """
        done = subprocess.run(
            [str(self.python), *arguments],
            stdout=output or subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=HERE.anchor,  # nothing there can be imported instead of what is installed
            env=VARIABLES,
        )
        if done.returncode:
            command = " ".join(arguments)
            print(done.stderr, file=sys.stderr)
            print(f"{self.name} version: {self.python} {command} failed", file=sys.stderr)
            raise SystemExit(2)
        return done.stdout or ""


# --- what is collected ---


@dataclass
class Row:
    """The replays with one strategy in one setting.

    Args:
        runs: How many there are.
        collections: The collections in them, of the old version.
        stopped: Those that an error ended, such as `ContextFloorError`.
        different: Those that differ between the versions, with the first difference.
    """

    runs: int = 0
    collections: int = 0
    stopped: int = 0
    different: list[str] = field(default_factory=list)

    def add(self, record: Record, difference: str) -> None:
        """Adds a replay, and how it differs between the versions if it does."""
        self.runs += 1
        self.collections += len(record.get("collections", ()))
        self.stopped += record.get("end", COMPLETE) != COMPLETE
        if difference:
            self.different.append(f"{record['run']}: {difference}")


def compare_collected(old: Version, new: Version, folder: Path) -> Record:
    """Replays all recorded runs in both versions and prints what differs."""
    start = time.perf_counter()
    rows: dict[tuple[str, str], Row] = defaultdict(Row)
    formats: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    with tempfile.TemporaryFile() as of_old, tempfile.TemporaryFile() as of_new:
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(version.run, REPLAY_RUNS, str(folder), output=output)
                for version, output in ((old, of_old), (new, of_new))
            ]
            for job in jobs:
                job.result()
        for old_record, new_record in pairs(of_old, of_new):
            record = old_record or new_record or {}
            if "read" in record:
                (formats if record["replayed"] else left_out)[record["format"]] += 1
            row = rows[record.get("setting", "read"), record.get("strategy", "")]
            row.add(record, first_difference(old_record, new_record))
    seconds = time.perf_counter() - start
    print(f"{formats.total()} recorded runs in {seconds:.0f} s: {listed(formats)}")
    print(f"left out, without an answer of a model: {listed(left_out)}\n")
    print_collected(rows)
    return {
        "seconds": seconds,
        "formats": formats,
        "left_out": left_out,
        "rows": [
            {"setting": setting, "strategy": strategy, **vars(row)}
            for (setting, strategy), row in rows.items()
        ],
    }


def listed(counts: Counter[str]) -> str:
    """Returns counts in one line, the largest first."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"


def pairs(of_old: IO[bytes], of_new: IO[bytes]) -> Iterator[tuple[Record | None, Record | None]]:
    """The records of the same run, strategy and setting in both versions."""
    places: dict[tuple[str, ...], int] = {}
    of_new.seek(0)
    while line := of_new.readline():
        places[key_of(json.loads(line))] = of_new.tell() - len(line)
    of_old.seek(0)
    for line in of_old:
        record = json.loads(line)
        place = places.pop(key_of(record), None)
        if place is None:
            yield record, None
            continue
        of_new.seek(place)
        yield record, json.loads(of_new.readline())
    for place in places.values():
        of_new.seek(place)
        yield None, json.loads(of_new.readline())


def key_of(record: Record) -> tuple[str, ...]:
    """Returns what identifies a record."""
    return record["run"], record.get("strategy", ""), record.get("setting", "")


def first_difference(old: Record | None, new: Record | None) -> str:
    """Returns the first difference between two records in words, or nothing."""
    if old is None or new is None:
        return f"only in the {'new' if old is None else 'old'} version"
    if "read" in old:
        return difference_in("messages", old["read"], new["read"], {}, {})
    total = f"of {len(old['collections'])} collections"
    for number, (one, other) in enumerate(
        zip(old["collections"], new["collections"], strict=False), 1
    ):
        for key in one | other:
            mine, theirs = one.get(key), other.get(key)
            if mine == theirs:
                continue
            where = f"number {number} {total}: "
            if isinstance(mine, list) and isinstance(theirs, list):
                return where + difference_in(key, mine, theirs, old["texts"], new["texts"])
            return f"{where}{key} {mine}, new {theirs}"
    if len(old["collections"]) != len(new["collections"]):
        return f"{len(old['collections'])} collections, new {len(new['collections'])}"
    if old["end"] != new["end"]:
        return (
            f"ends with{said('old', old['end'], old['why'])}{said('new', new['end'], new['why'])}"
        )
    return ""


def difference_in(
    name: str,
    old: Sequence[Any],
    new: Sequence[Any],
    old_texts: Mapping[str, str],
    new_texts: Mapping[str, str],
) -> str:
    """Returns the first difference between two lists, with the texts of messages if known."""
    for index, (one, other) in enumerate(zip(old, new, strict=False)):
        if one == other:
            continue
        found = f"{name}[{index}]{said('old', one)}{said('new', other)}"
        one_text = old_texts.get(str(one).split()[-1], "")
        other_text = new_texts.get(str(other).split()[-1], "")
        if one_text and other_text:
            start = zip(one_text, other_text, strict=False)
            same = next((i for i, (a, b) in enumerate(start) if a != b), 0)
            begin, end = max(0, same - 40), same + 120
            found += said("old", one_text[begin:end]) + said("new", other_text[begin:end])
        return found
    return "" if len(old) == len(new) else f"{name}: {len(old)}, new {len(new)}"


def said(version: str, *values: Any) -> str:
    """Returns a line of a difference."""
    return f"\n      {version}: {' '.join(map(str, values))[:300]}"


def print_collected(rows: Mapping[tuple[str, str], Row]) -> None:
    """Prints a table, with the first difference below each row that has one."""
    print(f"{'setting':25}{'strategy':26}{'runs':>6}{'stopped':>9}{'collections':>13}")
    for (setting, strategy), row in rows.items():
        verdict = f"DIFFERENT in {len(row.different)}" if row.different else "equal"
        counts = f"{row.runs:6,}{row.stopped:9,}{row.collections:13,}"
        print(f"{setting:25}{strategy:26}{counts}   {verdict}")
        for difference in row.different[:1]:
            print(f"    {difference}")
    collections = sum(row.collections for row in rows.values())
    different = sum(len(row.different) for row in rows.values())
    print(f"\n{collections:,} collections compared; {different:,} replays differ")


# --- speed ---

JOBS = (
    ("session", "gc_budget", 1_000), ("session", "gc_truncate", 1_000),
    ("collection", "gc_budget", 1_300), ("collection", "gc_truncate", 1_300),
    ("collection", "gc_budget", 10_000), ("collection", "gc_truncate", 10_000),
    ("collection", "gc_budget", 100_000), ("collection", "gc_truncate", 100_000),
)  # fmt: skip
IMPORTS = {
    "import jaato_gc": "import pydantic, pluggy",
    # Pydantic loads these late: `import pydantic` alone brings none of them.
    "from jaato_gc import GCSession": (
        "import pluggy; from pydantic import BaseModel, Field, model_validator"
    ),
}
IMPORT_ROUNDS = 15


@dataclass
class Times:
    """The best time of each round, in seconds."""

    what: str
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)


def compare_speed(old: Version, new: Version, rounds: int) -> Record:
    """Measures both versions in turns and prints a table."""
    measured: list[Times] = []
    for work, strategy, size in JOBS:
        unit = "turns" if work == "session" else "messages"
        times = Times(f"{work}, {strategy}, {size:,} {unit}")
        for _ in range(rounds):
            times.old.append(best_of(old, work, strategy, size))
            times.new.append(best_of(new, work, strategy, size))
        measured.append(times)
    for statement, before in IMPORTS.items():
        times = Times(statement)
        for _ in range(IMPORT_ROUNDS):
            times.old.append(time_import(old, statement, before))
            times.new.append(time_import(new, statement, before))
        measured.append(times)
    print_speed(measured, rounds)
    return {"rounds": rounds, "times": [vars(each) for each in measured]}


def best_of(version: Version, work: str, strategy: str, size: int) -> float:
    """Seconds of the fastest repetition in a fresh process."""
    return min(map(float, version.run(MEASURE, work, strategy, str(size)).split()))


def time_import(version: Version, statement: str, before: str) -> float:
    """Seconds of CPU time of an import in a fresh process, after another one."""
    clock = "time.process_time()"
    code = f"import time\n{before}\nstart = {clock}\n{statement}\nprint({clock} - start)"
    return float(version.run("-c", code))


def print_speed(measured: Sequence[Times], rounds: int) -> None:
    """Prints minima, medians, ratios, and how collections grow."""
    print(
        f"\nmilliseconds of CPU; {rounds} rounds, {IMPORT_ROUNDS} for imports; ratio is new / old\n"
    )
    columns = f"{'old':>10}{'new':>10}{'ratio':>8}"
    print(f"{'':45}{'minimum':>28}{'median':>28}\n{'':45}{columns}{columns}")
    for each in measured:
        figures = ""
        for pick in (min, median):
            one, other = pick(each.old), pick(each.new)
            figures += f"{one * 1e3:10.2f}{other * 1e3:10.2f}{other / one:8.2f}"
        print(f"{each.what:45}{figures}")
    by_name = {each.what: each for each in measured}
    print("\ngrowth exponent from 10,000 to 100,000 messages, by minima")
    for strategy in ("gc_budget", "gc_truncate"):
        small, large = (
            by_name[f"collection, {strategy}, {size:,} messages"] for size in (10_000, 100_000)
        )
        one = math.log10(min(large.old) / min(small.old))
        other = math.log10(min(large.new) / min(small.new))
        print(f"{strategy:45}{one:10.2f}{other:10.2f}")


def main() -> None:
    """Compares what the options ask for."""
    if len(sys.argv) == 1:  # as `nox -s bench` runs it
        print("usage: two_versions.py --old PYTHON --new PYTHON [--collected] [--speed]")
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    beside = HERE.parents[1] / "shared" / "transcripts"
    recorded = Path(os.environ.get("JAATO_GC_TRANSCRIPTS") or beside)
    parser.add_argument("--old", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--new", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--collected", action="store_true", help="compare what is collected")
    parser.add_argument("--speed", action="store_true", help="compare times")
    parser.add_argument("--transcripts", type=Path, default=recorded, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=9, help="of --speed, default 9")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args()
    if not (options.collected or options.speed):
        parser.error("nothing to compare: give --collected, --speed or both")
    if options.collected and not options.transcripts.is_dir():
        parser.error(f"--transcripts {options.transcripts}: not a folder")
    old, new = Version("old", options.old.absolute()), Version("new", options.new.absolute())
    figures: Record = {}
    for version in (old, new):
        if not version.python.is_file():
            parser.error(f"--{version.name} {version.python}: expected a Python interpreter")
        installed = version.run("-c", "import jaato_gc; print(jaato_gc.__version__)").strip()
        figures[version.name] = f"jaato-gc {installed}, {version.python}"
        print(f"{version.name}: {figures[version.name]}")
    if options.collected:
        figures["collected"] = compare_collected(old, new, options.transcripts.absolute())
    if options.speed:
        figures["speed"] = compare_speed(old, new, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if any(row["different"] for row in figures.get("collected", {}).get("rows", ())):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
