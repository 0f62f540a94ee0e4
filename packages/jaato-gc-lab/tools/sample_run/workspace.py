"""The files of the sample project, and the tools that read and change them."""

import difflib
import random
from pathlib import Path

from sample_run.run_project import run_python, run_tests, shown

PROJECT = Path(__file__).parent / "project"


class Workspace:
    """A copy of the project in memory. Every tool returns the text that the agent sees.

    Args:
        rng: Source of the durations of test runs and of commit hashes.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.files = {
            path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(PROJECT.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        }
        self._committed = dict(self.files)

    def read(self, path: str) -> str:
        """Returns a file with line numbers."""
        lines = self.files[path].splitlines()
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))

    def edit(self, path: str, old: str, new: str) -> str:
        """Replaces a text that occurs exactly once."""
        count = self.files[path].count(old)
        if count != 1:
            return f"error: the old text occurs {count} times in {path}, expected 1"
        before = self.files[path]
        self.files[path] = before.replace(old, new)
        first = before[: before.index(old)].count("\n") + 1
        return f"{path}: replaced {len(old.splitlines())} lines at line {first}"

    def write(self, path: str, content: str) -> str:
        """Writes a whole file."""
        self.files[path] = content
        return f"{path}: {len(content.splitlines())} lines written"

    def search(self, pattern: str, path: str) -> str:
        """Returns the lines below a path that contain a text."""
        found = [
            f"{name}:{number}:{line}"
            for name, text in sorted(self.files.items())
            if name.startswith(path.removeprefix("."))
            for number, line in enumerate(text.splitlines(), 1)
            if pattern in line
        ]
        return "\n".join(found) or "no matches"

    def pytest(self, *paths: str, verbose: bool = False) -> str:
        """Runs the tests of some files, or of all."""
        outcome = run_tests(self.files, paths or self.test_files())
        return shown(outcome, verbose=verbose, seconds=self._rng.uniform(0.1, 0.9))

    def python(self, code: str) -> str:
        """Runs Python code that imports the project."""
        return run_python(self.files, code)

    def test_names(self) -> list[str]:
        """Returns the names of all tests."""
        return run_tests(self.files, self.test_files()).tests

    def test_files(self) -> list[str]:
        """Returns the files with tests."""
        return [name for name in sorted(self.files) if name.startswith("tests/test_")]

    def diff(self) -> str:
        """Returns all changes since the last commit."""
        lines: list[str] = []
        for name in sorted({*self.files, *self._committed}):
            before = self._committed.get(name, "").splitlines()
            after = self.files.get(name, "").splitlines()
            if before != after:
                lines.append(f"diff --git a/{name} b/{name}")
                lines += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")
        return "\n".join(lines)

    def commit(self, message: str) -> str:
        """Commits all changes."""
        changed = [name for name in self.files if self.files[name] != self._committed.get(name)]
        self._committed = dict(self.files)
        return f"[main {self._rng.randbytes(4).hex()[:7]}] {message}\n {len(changed)} files changed"
