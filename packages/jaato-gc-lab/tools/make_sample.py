"""Generates the sample run of jaato-gc-lab: an agent that works on a small code base.

The harbour, its software and its log files are fictional. The same seed always produces the same
run. The English inside the run is data: changing it changes all figures in the documentation.

    python packages/jaato-gc-lab/tools/make_sample.py
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEED = 20261116
OUTPUT = Path(__file__).parents[1] / "src" / "jaato_gc_lab" / "sample" / "run.json.gz"

MODULES = (
    "schedule", "berths", "vessels", "tides", "tariffs", "imports", "clock", "notices", "storage",
    "reports", "cli",
)  # fmt: skip
NOUNS = {
    "schedule": ("slot", "rotation", "window", "conflict"),
    "berths": ("berth", "quay", "bollard", "depth"),
    "vessels": ("vessel", "call_sign", "draught", "agent"),
    "tides": ("tide", "gauge", "low_water", "forecast"),
    "tariffs": ("tariff", "surcharge", "invoice", "discount"),
    "imports": ("manifest", "row", "batch", "import_error"),
    "clock": ("local_time", "offset", "transition", "deadline"),
    "notices": ("notice", "recipient", "template", "bulletin"),
    "storage": ("record", "snapshot", "index", "migration"),
    "reports": ("report", "column", "total", "page"),
    "cli": ("option", "command", "exit_code", "prompt"),
}
VERBS = ("load", "check", "find", "merge", "expire", "assign", "render", "collect", "parse", "rank")
FIELDS = ("arrival", "departure", "length_m", "beam_m", "priority", "pilot", "tugs", "cargo_code")
TOOLS = {
    "read_file": ("Show a text file with line numbers.", ("path",)),
    "edit_file": ("Replace a text in a file, wherever it occurs.", ("path", "old", "new")),
    "write_file": ("Write a whole file.", ("path", "content")),
    "search": ("List the lines that match a pattern.", ("pattern", "path")),
    "run_command": ("Run a shell command and show its output.", ("command",)),
}
SYSTEM = """You are a careful engineer who works on the code base in /srv/harbour with the tools \
you are given. Read a file before you change it. Run the tests after every change and look at what \
they say. Keep changes small. When you are done, say briefly what you did and what you left alone.

House rules: Python 3.10, type hints, no new dependencies without asking. Times are kept in UTC \
and shown in the harbour's own zone. Ticket numbers (HB-…) belong into commit messages and into \
the change log."""


class CodeBase:
    """The files that the run reads and edits."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.files: dict[str, str] = {}
        for module in MODULES:
            self.files[f"src/harbour/{module}.py"] = self._module(module)
            self.files[f"tests/test_{module}.py"] = self._tests(module)
        self.files["CHANGELOG.md"] = "# Changes\n\n## 4.2.0\n\n- Tariffs by length and season.\n"

    def functions(self, module: str) -> list[str]:
        """Returns the function names of a module."""
        text = self.files[f"src/harbour/{module}.py"]
        return [line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def ")]

    def _module(self, module: str) -> str:
        rng, nouns = self.rng, NOUNS[module]
        others = rng.sample([each for each in MODULES if each != module], 2)
        lines = [
            f'"""{module.capitalize()}: {", ".join(nouns[:-1])} and {nouns[-1]}."""',
            "", "from dataclasses import dataclass", "from datetime import datetime, timedelta", "",
            *(f"from harbour import {other}" for other in sorted(others)), "",
            f"MAX_{nouns[0].upper()}S = {rng.randrange(40, 900)}",
            f"GRACE_MINUTES = {rng.choice((15, 20, 30, 45))}", "", "", "@dataclass",
            f"class {nouns[0].title().replace('_', '')}:",
            f'    """One {nouns[0].replace("_", " ")} as the harbour office knows it."""', "",
            *(f"    {name}: {rng.choice(('str', 'float', 'datetime', 'int'))}"
              for name in rng.sample(FIELDS, 5)),
        ]  # fmt: skip
        for verb, noun in zip(rng.sample(VERBS, 6), nouns * 2, strict=False):
            most = f"MAX_{nouns[0].upper()}S"
            lines += ["", "", *self._function(f"{verb}_{noun}", noun, most, others[0])]
        return "\n".join(lines) + "\n"

    def _function(self, name: str, noun: str, most: str, other: str) -> Iterator[str]:
        rng = self.rng
        key, second = rng.sample(FIELDS, 2)
        yield f"def {name}({noun}s: list[dict[str, object]], now: datetime) -> list[str]:"
        yield f'    """The {noun.replace("_", " ")}s that matter at a moment, by {key}."""'
        yield "    found: list[str] = []"
        yield f"    limit = now - timedelta(minutes=GRACE_MINUTES * {rng.randrange(1, 9)})"
        yield f"    for number, {noun} in enumerate({noun}s):"
        yield f"        if {noun}.get({key!r}) is None:"
        yield "            continue"
        yield f"        if {noun}[{key!r}] < limit or number > {rng.randrange(100, 5000)}:"
        yield f"            found.append(str({noun}[{second!r}]))"
        if rng.random() < 0.5:
            yield f"        elif {noun}.get({second!r}) == {other}.GRACE_MINUTES:"
            yield f'            found.append(f"{other}-{{number:0{rng.randrange(3, 6)}d}}")'
        yield f"    return sorted(found)[:{most}]"

    def _tests(self, module: str) -> str:
        functions = self.functions(module)
        lines = [f"from harbour import {module}", "from tests.samples import moments, rows"]
        for name in functions[:5]:
            count = self.rng.randrange(2, 60)
            lines += ["", "",
                f"def test_{name}_at_the_clock_change() -> None:",
                f"    found = {module}.{name}(rows({count}), moments.SPRING_FORWARD)", "",
                f"    assert len(found) == {self.rng.randrange(1, count)}",
            ]  # fmt: skip
        return "\n".join(lines) + "\n"


class Run:
    """Builds the messages of the run."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.code = CodeBase(rng)
        self.messages: list[dict[str, Any]] = []
        self._calls = 0

    # --- messages ---

    def user(self, text: str) -> None:
        """Adds a message of the user."""
        self.messages.append({"role": "user", "content": text})

    def done(self, text: str) -> None:
        """Adds the final answer of a turn."""
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    def call(self, why: str, tool: str, result: str, **arguments: str) -> None:
        """Adds a tool call and its result."""
        self.calls(why, [(tool, arguments, result)])

    def calls(self, why: str, calls: list[tuple[str, dict[str, str], str]]) -> None:
        """Adds parallel tool calls and their results."""
        said: list[dict[str, Any]] = [{"type": "text", "text": why}] if why else []
        results: list[dict[str, Any]] = []
        for tool, arguments, result in calls:
            self._calls += 1
            call_id = f"toolu_{self._calls:04d}"
            said.append({"type": "tool_use", "id": call_id, "name": tool, "input": arguments})
            results.append({"type": "tool_result", "tool_use_id": call_id, "content": result})
            if result.startswith("error:"):
                results[-1]["is_error"] = True
        self.messages.append({"role": "assistant", "content": said})
        self.messages.append({"role": "user", "content": results})

    # --- tools ---

    def read(self, why: str, *paths: str) -> None:
        """Reads files."""
        self.calls(why, [("read_file", {"path": path}, self._shown(path)) for path in paths])

    def _shown(self, path: str) -> str:
        lines = self.code.files[path].splitlines()
        return "\n".join(f"{number:5}  {line}" for number, line in enumerate(lines, 1))

    def edit(self, why: str, path: str, old: str, new: str) -> None:
        """Edits a file."""
        text = self.code.files[path]
        if old not in text:
            missing = f"error: the text to replace does not occur in {path}"
            self.call(why, "edit_file", missing, path=path, old=old, new=new)
            return
        self.code.files[path] = text.replace(old, new)
        at = text[: text.index(old)].count("\n") + 1
        self.call(why, "edit_file", f"{path}: line {at} changed", path=path, old=old, new=new)

    def search(self, why: str, pattern: str) -> None:
        """Searches all files."""
        found = [
            f"{path}:{number}: {line.strip()}"
            for path, text in self.code.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if pattern in line
        ]
        shown = "\n".join(found[:40]) or "no matches"
        self.call(why, "search", shown, pattern=pattern, path=".")

    def tests(self, why: str, *failing: str, module: str = "") -> None:
        """Runs the tests, of which the given ones fail."""
        command = f"python -m pytest -q tests/test_{module}.py" if module else "python -m pytest"
        self.call(why, "run_command", self._test_log(failing, module), command=command)

    def _test_log(self, failing: tuple[str, ...], only: str) -> str:
        rng, lines = self.rng, ["=" * 28 + " test session starts " + "=" * 28]
        total = 0
        for module in [only] if only else MODULES:
            for name in self.code.functions(module)[:5]:
                total += 1
                end = "FAILED" if name in failing else "PASSED"
                test = f"tests/test_{module}.py::test_{name}_at_the_clock_change"
                lines.append(f"{test} {end} [{total:3d}]")
        for name in failing:
            found, wanted = rng.randrange(0, 9), rng.randrange(10, 40)
            lines += [
                f"____________ test_{name}_at_the_clock_change ____________", "",
                f"    def test_{name}_at_the_clock_change() -> None:",
                f"        found = {name}(rows({rng.randrange(20, 60)}), moments.SPRING_FORWARD)",
                f">       assert len(found) == {wanted}",
                f"E       assert {found} == {wanted}",
                f"E        +  where {found} = len(['{rng.randbytes(4).hex()}', …])", "",
                "----------------------------- captured log call -----------------------------",
                *self.log_lines(9),
            ]  # fmt: skip
        seconds = rng.uniform(3, 40)
        lines.append(f"{len(failing)} failed, {total - len(failing)} passed in {seconds:.2f}s")
        return "\n".join(lines)

    def log(self, why: str, path: str, lines: int) -> None:
        """Shows the end of a log file."""
        shown = "\n".join(self.log_lines(lines))
        self.call(why, "run_command", shown, command=f"tail -n {lines} {path}")

    def log_lines(self, count: int) -> Iterator[str]:
        """Yields random log lines."""
        rng, second = self.rng, self.rng.randrange(60)
        for _ in range(count):
            second += rng.randrange(1, 40)
            stamp = f"2026-03-29T0{1 + second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}Z"
            module = rng.choice(MODULES)
            yield (
                f"{stamp} {rng.choice(('INFO', 'INFO', 'DEBUG', 'WARNING'))} harbour.{module} "
                f"request={rng.randbytes(5).hex()} {rng.choice(VERBS)}_{rng.choice(NOUNS[module])} "
                f"took {rng.randrange(2, 900)} ms for {rng.randrange(1, 4000)} rows"
            )


def make() -> dict[str, Any]:
    """Returns the last request of the run."""
    run = Run(random.Random(SEED))
    debug_the_clock(run)
    fix_the_import(run)
    add_a_dry_run(run)
    explain(run, "tides", "the low water of the forecast")
    fix_the_build(run)
    explain(run, "tariffs", "surcharges in the hour of the clock change")
    rename(run)
    explain(run, "notices", "a bulletin that nobody received")
    update_the_change_log(run)
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 8192,
        "system": SYSTEM,
        "tools": [
            {
                "name": name,
                "description": what,
                "input_schema": {
                    "type": "object",
                    "properties": {each: {"type": "string"} for each in arguments},
                    "required": list(arguments),
                },
            }
            for name, (what, arguments) in TOOLS.items()
        ],
        "messages": run.messages,
    }


def source(module: str) -> str:
    """Returns the path of a module."""
    return f"src/harbour/{module}.py"


def debug_the_clock(run: Run) -> None:
    """Adds the first turn: a failing import with logs, reads, wrong attempts and the fix."""
    run.user(
        "Since the clocks went forward the nightly import drops vessel calls (ticket HB-4127). The "
        "office noticed with manifest MNF-20260329-0417 of the Aurelia Boreas, which should have "
        "had berth Q7-North at 02:30. Find out why and mend it. The log is at "
        "/var/log/harbour/import-20260329.log."
    )
    run.call(
        "I'll look around first.", "run_command",
        "\n".join([*run.code.files, "pyproject.toml", "deploy/harbour.service", "README.md"]),
        command="git ls-files",
    )  # fmt: skip
    run.log("Now the log of that night.", "/var/log/harbour/import-20260329.log", 60)
    run.read("The import starts here.", source("imports"), source("clock"))
    run.tests("What do the tests say?", *run.code.functions("clock")[:3])
    run.read("", "tests/test_clock.py")
    run.search("Who depends on the clock?", "from harbour import clock")
    for module in ("schedule", "tides", "storage"):
        run.read(f"{module} works with times as well.", source(module))
    first = run.code.functions("clock")[0]
    grace = next(
        line for line in run.code.files[source("clock")].splitlines() if "GRACE_MINUTES =" in line
    )
    run.edit(
        "The grace period is the likely culprit: it is shorter than the gap of the clock change.",
        source("clock"), grace, "GRACE_MINUTES = 75  # longer than the hour that a change skips",
    )  # fmt: skip
    run.tests("", *run.code.functions("clock")[1:3], module="clock")
    run.read("Better, but two are left. Once more from the top.", source("clock"))
    run.edit(
        f"`{first}` compares local times. That is wrong in the hour that does not exist.",
        source("clock"), "    limit = now - timedelta(",
        "    limit = now.astimezone(UTC) - timedelta(",
    )  # fmt: skip
    run.tests("", *run.code.functions("clock")[:5], module="clock")
    run.edit(
        "The name has to be imported, of course.", source("clock"),
        "from datetime import datetime, timedelta", "from datetime import UTC, datetime, timedelta",
    )  # fmt: skip
    run.tests("", module="clock")
    run.done(
        "The clock compared local times with UTC: in the hour that does not exist, everything "
        "looked expired. `clock.py` compares in UTC now, and its tests pass."
    )


def fix_the_import(run: Run) -> None:
    """Adds the second turn: the same bug in another module."""
    run.user("Is the import itself in order then? Run everything, and try that night's file.")
    run.tests("All tests:", run.code.functions("imports")[1])
    run.read("The import has the same fault.", source("imports"), "tests/test_imports.py")
    run.edit(
        "", source("imports"), "from datetime import datetime, timedelta",
        "from datetime import UTC, datetime, timedelta",
    )  # fmt: skip
    run.edit(
        "", source("imports"), "    limit = now - timedelta(",
        "    limit = now.astimezone(UTC) - timedelta(",
    )  # fmt: skip
    run.tests("")
    run.log("A trial import of that night's file:", "/tmp/harbour/trial-import.log", 30)
    run.done(
        "No, it had the same fault, and MNF-20260329-0417 was among what it dropped. `imports.py` "
        "compares in UTC now as well. All tests pass, and the trial import drops nothing."
    )


def add_a_dry_run(run: Run) -> None:
    """Adds a turn with a feature that affects several modules."""
    run.user("Good. Please add a --dry-run to the import command that writes nothing.")
    run.read("", source("cli"), "tests/test_cli.py")
    run.read("What does the import write through?", source("storage"))
    run.search("", "MAX_RECORDS")
    for module in ("cli", "imports", "storage"):
        signature = "now: datetime) -> list[str]:"
        run.edit(
            f"{module} has to pass it on.", source(module), signature,
            "now: datetime, *, dry_run: bool = False) -> list[str]:",
        )  # fmt: skip
        run.edit(
            "",
            source(module),
            "    found: list[str] = []\n",
            "    found: list[str] = []\n    if dry_run:\n        return found\n",
        )
        run.tests("", *run.code.functions(module)[:1], module=module)
        run.read("A test calls it with positional arguments; I'll look again.", source(module))
        run.edit("", source(module), "now: datetime, *, dry_run", "now: datetime, dry_run")
        run.tests("", module=module)
    content = "\n".join(
        f"def test_dry_run_of_{name}_writes_nothing(store) -> None:\n"
        f"    cli.main(['import', '--dry-run', '--only={name}'])\n\n    assert store.writes == 0\n"
        for name in run.code.functions("storage")
    )
    run.code.files["tests/test_dry_run.py"] = content
    run.call(
        "Tests for the option itself.", "write_file", "tests/test_dry_run.py written",
        path="tests/test_dry_run.py", content=content,
    )  # fmt: skip
    run.tests("")
    run.done("`harbour import --dry-run` reads and checks everything and writes nothing.")


def explain(run: Run, module: str, what: str) -> None:
    """Adds a turn with a question that is answered from the code."""
    run.user(f"A question in between: who is responsible for {what}? Don't change anything.")
    run.search("", NOUNS[module][0])
    run.read("", source(module))
    name = run.code.functions(module)[2]
    run.done(f"`{name}` in `{source(module)}` is, and nothing else calls it.")


def fix_the_build(run: Run) -> None:
    """Adds a turn that starts with a long log from the user."""
    log = "\n".join(run.log_lines(45))
    run.user(
        "The build on the old quay server fails, pipeline 88213. This is the end of its log:\n\n"
        f"{log}\nImportError: cannot import name 'UTC' from 'datetime' "
        "(/usr/lib/python3.10/datetime.py)"
    )
    run.call(
        "", "run_command", "Python 3.10.12\nharbour 4.2.0 requires Python >=3.10",
        command="ssh quay-old python3 --version; grep requires-python pyproject.toml",
    )  # fmt: skip
    run.search("`datetime.UTC` came with Python 3.11. Where is it used?", "import UTC")
    run.edit(
        "I remember that line.", source("clock"), "from datetime import UTC, timedelta",
        "from datetime import timedelta, timezone",
    )  # fmt: skip
    for module in ("clock", "imports"):
        run.read("", source(module))
        run.edit(
            "", source(module), "from datetime import UTC, datetime, timedelta",
            "from datetime import datetime, timedelta, timezone",
        )  # fmt: skip
        run.edit("", source(module), "astimezone(UTC)", "astimezone(timezone.utc)")
    run.tests("")
    installed = "\n".join(
        f"Collecting {name}=={run.rng.randrange(1, 9)}.{run.rng.randrange(30)}\n  Downloading "
        f"{name}-{run.rng.randbytes(6).hex()}.whl ({run.rng.randrange(20, 900)} kB)"
        for name in (*VERBS, *FIELDS)
    )
    run.call(
        "The same in an environment like the server's:", "run_command", installed,
        command="python3.10 -m venv /tmp/old && /tmp/old/bin/pip install -e .",
    )  # fmt: skip
    run.tests("")
    run.done("Both modules work on Python 3.10 again; pipeline 88213 can be started anew.")


def rename(run: Run) -> None:
    """Adds a turn with the same change in many files."""
    run.user(
        "The office speaks of mooring grace now. Please rename GRACE_MINUTES accordingly, in all "
        "modules, and look at each of them while you are there."
    )
    run.search("", "GRACE_MINUTES")
    for module in MODULES:
        run.read("" if run.rng.random() < 0.6 else f"Next: {module}.", source(module))
        run.edit("", source(module), "GRACE_MINUTES", "MOORING_GRACE_MINUTES")
        if run.rng.random() < 0.4:
            run.tests("", *run.code.functions(module)[:1], module=module)
            run.read("Did that go wrong?", source(module), f"tests/test_{module}.py")
            run.tests("No, a test was in the way of another. Again:", module=module)
    run.search("Anything left?", " GRACE_MINUTES")
    run.tests("")
    run.done("It is MOORING_GRACE_MINUTES in all eleven modules now, and all tests pass.")


def update_the_change_log(run: Run) -> None:
    """Adds the last turn, which refers to names from the first one."""
    run.user("Write the change log, and tell me what to tell the office.")
    run.read("", "CHANGELOG.md")
    run.edit(
        "", "CHANGELOG.md", "# Changes\n",
        "# Changes\n\n## 4.2.1\n\n- HB-4127: vessel calls in the hour of the clock change are no "
        "longer dropped (MNF-20260329-0417, berth Q7-North).\n- `harbour import --dry-run`.\n"
        "- Works on Python 3.10 again (pipeline 88213).\n",
    )  # fmt: skip
    run.call(
        "", "run_command", run.rng.randbytes(20).hex(),
        command="git commit -qam 'HB-4127: compare times in UTC' && git rev-parse HEAD",
    )  # fmt: skip
    run.done(
        "Tell them: the import of 29 March can be run again from "
        "/var/log/harbour/import-20260329.log, with --dry-run first. The Aurelia Boreas then has "
        "its berth Q7-North at 02:30, as manifest MNF-20260329-0417 says."
    )


def packed(run: dict[str, Any]) -> bytes:
    """Returns the compressed run, which is the same every time."""
    text = json.dumps(run, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_bytes(packed(make()))
