"""The commands for contributors work in a fresh clone, and so does the guide for a distribution.

`nox -s clone` runs this. It needs no package of this repository: uv installs them in the clone.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks_of

GUIDE = ROOT / "docs/how-to/add-a-distribution.md"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Clones this repository, with the changes that are not committed yet."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)], check=True)
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        (folder / name).unlink(missing_ok=True)
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def run(commands: str, folder: Path) -> None:
    """Runs commands of a document in a folder, with the environment that uv creates there."""
    own = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "JAATO_GC_", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    shell = ["bash", "-euxo", "pipefail", "-c", commands]
    subprocess.run(shell, cwd=folder, env=environment, check=True)


def extend(text: str, block: str) -> str:
    """Returns a text with the last lines of a block below its first lines, which are in it once."""
    lines = block.splitlines(keepends=True)
    for count in range(len(lines) - 1, 0, -1):
        before, existing, after = text.partition("".join(lines[:count]))
        if existing and existing not in after:
            return before + block + after
    raise AssertionError(f"the file has no line, or several, as the first of this block:\n{block}")


def follow(block: Block, folder: Path) -> None:
    """Does what a block of the guide says: write or extend a file, or run commands."""
    if block.title:
        path = folder / block.title
        path.write_text(
            extend(path.read_text(encoding="utf-8"), block.text) if path.exists() else block.text,
            encoding="utf-8",
        )
    elif block.language == "sh":
        run(block.text, folder)


@pytest.mark.slow
def test_the_commands_of_contributing_find_all_that_they_need(clone: Path) -> None:
    """Tests are collected and sessions listed, but not run: `nox` does that."""
    blocks = blocks_of(ROOT / "CONTRIBUTING.md")
    commands = "".join(block.text for block in blocks if block.language == "sh")
    assert "bin/pytest" in commands

    commands = commands.replace("bin/pytest", "bin/pytest --collect-only -q")
    commands = commands.replace("bin/nox", "bin/nox -l")
    run(commands + ".venv/bin/pre-commit run --all-files", clone)


@pytest.mark.slow
def test_a_clone_that_follows_the_guide_passes_every_check(clone: Path) -> None:
    for block in blocks_of(GUIDE):
        follow(block, clone)


FILE = "[one]\na = 1\n\n[two]\na = 2\n"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("[two]\nb = 3\n", "[one]\na = 1\n\n[two]\nb = 3\na = 2\n"),
        ("[two]\na = 2\nb = 3\n", FILE + "b = 3\n"),
    ],
)
def test_a_block_extends_a_file_below_the_lines_that_it_begins_with(
    block: str, expected: str
) -> None:
    assert extend(FILE, block) == expected


@pytest.mark.parametrize("block", ["[three]\nb = 3\n", "a = 5\n"])
def test_a_block_without_an_existing_first_line_is_an_error(block: str) -> None:
    with pytest.raises(AssertionError, match="no line"):
        extend(FILE, block)
