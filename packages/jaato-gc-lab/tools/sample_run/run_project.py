"""Runs the tests of the sample project in memory, and prints their outcome as pytest does.

The tests really run, so what the sample run shows agrees with the files that it shows. Tests are
plain functions without fixtures, which needs no pytest and gives the same text everywhere.
"""

import ast
import io
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType, TracebackType
from typing import NamedTuple

PACKAGES = ("harbour", "tests")
WIDTH = 80
BETWEEN = " ".join("_" * (WIDTH // 2))
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")


class Failure(NamedTuple):
    """A failed test, with the lines that explain it."""

    test: str
    message: str
    lines: list[str]


class Frame(NamedTuple):
    """One level of a traceback."""

    path: str
    number: int
    function: str
    values: dict[str, object]


class Outcome(NamedTuple):
    """The names of all tests that ran, and the failures among them."""

    tests: list[str]
    failures: list[Failure]


class _Project(MetaPathFinder, Loader):
    """Imports the packages of a project from texts in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        path = self.path_of(fullname)
        if path is None:
            return None
        is_package = path.endswith("__init__.py")
        return spec_from_loader(fullname, self, origin=path, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        path = self.path_of(module.__name__) or ""
        exec(_compiled(self._files[path], path), module.__dict__)

    def path_of(self, name: str) -> str | None:
        folder = "src/" if name.startswith("harbour") else ""
        source = folder + name.replace(".", "/")
        places = (f"{source}.py", f"{source}/__init__.py")
        return next((place for place in places if place in self._files), None)


def _compiled(source: str, path: str) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


@contextmanager
def _importable(files: Mapping[str, str]) -> Iterator[None]:
    finder = _Project(files)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if each.partition(".")[0] in PACKAGES]:
            del sys.modules[name]


def run_tests(files: Mapping[str, str], paths: Sequence[str]) -> Outcome:
    """Runs the tests in some files of a project."""
    tests: list[str] = []
    failures: list[Failure] = []
    with _importable(files):
        for path in paths:
            name = path.removesuffix(".py").replace("/", ".")
            try:
                __import__(name)
            except Exception as error:
                tests.append(path)
                failures.append(_failure(path, error, files))
                continue
            for test, function in vars(sys.modules[name]).items():
                if not test.startswith("test_"):
                    continue
                tests.append(f"{path}::{test}")
                try:
                    function()
                except Exception as error:
                    failures.append(_failure(f"{path}::{test}", error, files))
    return Outcome(tests, failures)


def _failure(test: str, error: Exception, files: Mapping[str, str]) -> Failure:
    *outer, last = (frame for frame in _frames(error.__traceback__) if frame.path in files)
    message = _message(error, files[last.path], last)
    lines: list[str] = []
    for frame in outer:
        lines += [*_marked(files[frame.path], frame), "", f"{frame.path}:{frame.number}:", BETWEEN]
    lines += [*_marked(files[last.path], last), f"E       {message}", ""]
    lines.append(f"{last.path}:{last.number}: {type(error).__name__}")
    return Failure(test, message, lines)


def _frames(trace: TracebackType | None) -> list[Frame]:
    found: list[Frame] = []
    for frame, number in traceback.walk_tb(trace):
        code, values = frame.f_code, {**frame.f_globals, **frame.f_locals}
        if code.co_name in COMPREHENSIONS:  # has no frame of its own since Python 3.12
            found[-1] = found[-1]._replace(number=number)
        else:
            found.append(Frame(code.co_filename, number, code.co_name, values))
    return found


def _marked(source: str, frame: Frame) -> list[str]:
    """Returns the lines of a function up to the one that failed, which is marked."""
    lines, begin = source.splitlines(), frame.number - 1
    if frame.function.isidentifier():  # neither a module nor a generator expression
        while not lines[begin].lstrip().startswith(f"def {frame.function}("):
            begin -= 1
    shown = [f"    {line}".rstrip() for line in lines[begin : frame.number - 1]]
    return ["", *shown, f">   {lines[frame.number - 1]}"]


def _message(error: Exception, source: str, frame: Frame) -> str:
    if type(error) is not AssertionError or error.args:
        text = str(error).partition(" (")[0]  # the place of a module differs between Pythons
        return f"{type(error).__name__}: {text}"
    [failed] = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert) and node.lineno <= frame.number <= (node.end_lineno or 0)
    ]
    if not isinstance(failed.test, ast.Compare):
        return f"assert {ast.unparse(failed.test)}"
    left, right = map(ast.unparse, (failed.test.left, failed.test.comparators[-1]))
    operator = ast.unparse(failed.test).removeprefix(left).removesuffix(right).strip()
    return f"assert {eval(left, frame.values)!r} {operator} {eval(right, frame.values)!r}"


def shown(outcome: Outcome, *, verbose: bool, seconds: float) -> str:
    """Returns the output of pytest."""
    failed = {failure.test for failure in outcome.failures}
    total = len(outcome.tests)
    lines: list[str] = []
    if verbose:
        lines += [
            " test session starts ".center(WIDTH, "="),
            "platform linux -- Python 3.12.3, pytest-8.3.4, pluggy-1.5.0",
            "rootdir: /srv/harbour",
            "configfile: pyproject.toml",
            f"collected {total} items",
            "",
        ]
        for number, test in enumerate(outcome.tests, 1):
            line = f"{test} {'FAILED' if test in failed else 'PASSED'}"
            lines.append(f"{line:<{WIDTH - 7}} [{100 * number // total:3d}%]")
    else:
        dots = "".join("F" if test in failed else "." for test in outcome.tests)
        lines.append(f"{dots:<{WIDTH - 7}} [100%]")
    if failed:
        lines.append(" FAILURES ".center(WIDTH, "="))
    for failure in outcome.failures:
        name = failure.test.rpartition("::")[2]
        lines += [f" {name} ".center(WIDTH, "_"), *failure.lines]
    if failed:
        lines.append(" short test summary info ".center(WIDTH, "="))
    lines += [f"FAILED {failure.test} - {failure.message}" for failure in outcome.failures]
    counts = [f"{len(failed)} failed"] if failed else []
    counts += [f"{total - len(failed)} passed"] if total > len(failed) else []
    lines.append(f"{', '.join(counts)} in {seconds:.2f}s".center(WIDTH + 2, " ").strip())
    return "\n".join(lines)


def run_python(files: Mapping[str, str], code: str) -> str:
    """Runs code that imports the project, and returns what it prints."""
    printed = io.StringIO()
    with _importable(files), redirect_stdout(printed):
        exec(_compiled(code, "<string>"), {})
    return printed.getvalue().rstrip("\n")
