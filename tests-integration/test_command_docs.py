"""Every command that the docs show is run, and prints what they show."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from repository import ROOT, required_siblings

from jaato_gc_lab._cli import COMMANDS
from jaato_gc_lab._cli._exits import Exit

REFERENCE = ROOT / "docs/reference/command.md"
DOCUMENTS = [
    ROOT / "packages/jaato-gc-lab/README.md",
    ROOT / "docs/tutorials/first-plugin.md",
    ROOT / "docs/tutorials/see-your-context.md",
    REFERENCE,
]
CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|min)\b")
LEFT_OUT = "…"
"""Matches any lines if it is alone in a line, and any text within a line."""


class Shown(NamedTuple):
    command: str
    lines: list[str]


def shown_in(document: Path) -> Iterator[Shown]:
    for block in CONSOLE.finditer(document.read_text(encoding="utf-8")):
        first, *lines = block["text"].splitlines()
        assert first.startswith("$ jaato-gc "), f"{document.name}: {first}"
        yield Shown(first.removeprefix("$ "), lines)


def printed_by(command: str, folder: Path) -> list[str]:
    """Returns what a command prints for a user who installed jaato-gc-lab and nothing else."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("JAATO_GC_")}
    variables["JAATO_GC_LOAD_PLUGINS"] = ",".join(required_siblings("jaato-gc-lab"))
    _, *args = shlex.split(command)
    program = "from jaato_gc_lab._cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=folder,
        env={**variables, "PYTHONUTF8": "1", "HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == "", command
    return done.stdout.strip("\n").splitlines()


def pattern_of(line: str) -> re.Pattern[str]:
    """Spaces and times may differ: a column is as wide as the time in it."""
    words = TIME.sub(LEFT_OUT, line).split()
    return re.compile(r"\s+".join(re.escape(w).replace(LEFT_OUT, ".*") for w in words))


def first_difference(lines: list[str], printed: list[str]) -> str | None:
    position = 0
    may_skip = False
    for line in lines:
        if line.strip() == LEFT_OUT:
            may_skip = True
            continue
        pattern = pattern_of(line)
        while may_skip and position < len(printed) and not _fits(pattern, printed[position]):
            position += 1
        if position >= len(printed) or not _fits(pattern, printed[position]):
            there = printed[position] if position < len(printed) else "nothing"
            return f"shown: {line!r}; printed: {there!r}"
        position, may_skip = position + 1, False
    return None if may_skip or position == len(printed) else f"not shown: {printed[position]!r}"


def _fits(pattern: re.Pattern[str], line: str) -> bool:
    return pattern.fullmatch(TIME.sub(LEFT_OUT, line).strip()) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_documented_command_prints_what_the_docs_show(document: Path, tmp_path: Path) -> None:
    for command, lines in shown_in(document):
        difference = first_difference(lines, printed_by(command, tmp_path))
        assert difference is None, f"$ {command}\n{difference}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_shows_the_help_of_every_command(name: str) -> None:
    shown = [each.command for each in shown_in(REFERENCE)]

    assert any(each.startswith(f"jaato-gc {name}") and each.endswith("--help") for each in shown)
    assert f"\n## {name}\n" in REFERENCE.read_text(encoding="utf-8")


def test_the_documented_exit_codes_are_those_of_the_code() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    documented = {int(row[1]): row[2] for row in re.finditer(r"^\| (\d+) \| (.*) \|$", text, re.M)}
    source = Path(sys.modules[Exit.__module__].__file__ or "").read_text(encoding="utf-8")
    meanings = re.findall(r'^    [A-Z_]+ = (\d+)\n    """(.*)"""$', source, re.MULTILINE)

    assert documented == {int(code): meaning for code, meaning in meanings}
    assert documented.keys() == {code.value for code in Exit}


@pytest.mark.parametrize(
    ("lines", "differs"),
    [
        (["a  1 20ms", "b"], False),
        (["a 1 3.1s", "…"], False),
        (["…", "b"], False),
        (["a … 4ms", "b"], False),
        (["a 2 20ms", "b"], True),
        (["a 1 20ms"], True),
        (["…", "a 1 20ms"], True),
        (["a 1 20ms", "b", "c"], True),
    ],
)
def test_differences_between_docs_and_output_are_found(lines: list[str], differs: bool) -> None:
    assert (first_difference(lines, ["a   1   7ms", "b"]) is not None) == differs
