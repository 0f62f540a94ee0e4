"""The log of a CI pipeline: three jobs, of which one fails in a few of its many lines."""

import random
from collections.abc import Iterator, Mapping, Sequence

PYTHONS = ("3.10", "3.11", "3.12")
TOOLS = (
    "attrs", "build", "certifi", "charset-normalizer", "click", "coverage", "distlib", "execnet",
    "filelock", "hatchling", "idna", "iniconfig", "jinja2", "markupsafe", "mypy", "packaging",
    "pathspec", "platformdirs", "pluggy", "pygments", "pytest", "pytest-cov", "pytest-xdist",
    "pyyaml", "requests", "ruff", "tomli", "trove-classifiers", "typing-extensions", "urllib3",
    "virtualenv", "wheel",
)  # fmt: skip
PACKAGES = (
    "libbz2-dev", "libffi-dev", "liblzma-dev", "libncurses-dev", "libreadline-dev",
    "libsqlite3-dev", "libssl-dev", "libxml2-dev", "tk-dev", "uuid-dev", "xz-utils", "zlib1g-dev",
)  # fmt: skip


class CiLog:
    """Writes the lines of a pipeline, each with its time.

    Args:
        rng: Source of durations, sizes and versions.
        files: The files of the project.
        tests: The names of all tests.
    """

    def __init__(self, rng: random.Random, files: Mapping[str, str], tests: Sequence[str]) -> None:
        self._rng = rng
        self._files = files
        self._tests = tests
        self._seconds = 9 * 3600.0

    def text(self) -> str:
        """Returns the whole log."""
        lines = [
            self._stamped(f"[test-{python}] {line}")
            for python in PYTHONS
            for line in (*self._setup(python), *self._installation(python), *self._testing(python))
        ]
        lines.append(self._stamped("[pipeline 88213] 1 of 3 jobs failed: test-3.10"))
        return "\n".join(lines)

    def _stamped(self, line: str) -> str:
        self._seconds += self._rng.uniform(0.01, 0.9)
        minutes, seconds = divmod(self._seconds, 60)
        return f"{int(minutes // 60):02d}:{int(minutes % 60):02d}:{seconds:06.3f} {line}"

    def _setup(self, python: str) -> Iterator[str]:
        yield "runner quay-ci-2, image debian-12, 4 cores, 8192 MB"
        yield "git clone --depth 1 ssh://git.harbour.example/harbour.git"
        yield f"Receiving objects: 100% ({len(self._files)}/{len(self._files)}), done."
        for package in PACKAGES:
            major, minor, patch = (self._rng.randrange(1, most) for most in (9, 40, 9))
            version = f"{major}.{minor}-{patch}"
            yield f"Get: deb.debian.example bookworm/main amd64 {package} {version}"
            yield f"Unpacking {package} ({version}) ..."
            yield f"Setting up {package} ({version}) ..."
        yield f"python{python} -m venv .venv"

    def _installation(self, python: str) -> Iterator[str]:
        versions = {
            tool: f"{self._rng.randrange(1, 30)}.{self._rng.randrange(30)}.{self._rng.randrange(9)}"
            for tool in TOOLS
        }
        for tool, version in versions.items():
            file = f"{tool.replace('-', '_')}-{version}-py3-none-any.whl"
            yield f"Collecting {tool}=={version}"
            yield f"  Downloading {file} ({self._rng.randrange(9, 900)} kB)"
        yield "Building wheels for collected packages: harbour"
        yield "  Building editable for harbour (pyproject.toml): finished with status 'done'"
        together = " ".join(f"{tool}-{version}" for tool, version in versions.items())
        yield f"Successfully installed harbour-4.2.0 {together}"
        yield f"DEPRECATION: pip for python{python} will enforce a new resolver in its next release"

    def _testing(self, python: str) -> Iterator[str]:
        yield "python -m pytest -v --cov=harbour --cov-report=term-missing"
        yield f"platform linux -- Python {python}, pytest-8.3.4, pluggy-1.5.0"
        if python == "3.10":
            yield from self._import_error()
            return
        yield f"collected {len(self._tests)} items"
        for number, test in enumerate(self._tests, 1):
            yield f"[gw{number % 4}] [{100 * number // len(self._tests):3d}%] PASSED {test}"
        yield "Name                        Stmts   Miss  Cover   Missing"
        for name, text in self._files.items():
            if name.startswith("src/"):
                count = sum(bool(line.strip()) for line in text.splitlines())
                missing = self._rng.sample(range(2, count + 3), min(3, count // 9))
                cover = 100 * (count - len(missing)) // max(count, 1)
                where = ", ".join(map(str, sorted(missing)))
                yield f"{name:<28}{count:5}{len(missing):7}{cover:6}%   {where}".rstrip()
        yield f"{len(self._tests)} passed in {self._rng.uniform(2, 5):.2f}s"
        yield "job succeeded"

    def _import_error(self) -> Iterator[str]:
        names = sorted(name for name in self._files if name.startswith("tests/test_"))
        yield f"collected 0 items / {len(names)} errors"
        for name in names:
            yield f" ERROR collecting {name} ".center(80, "_")
            yield f"ImportError while importing test module '/builds/harbour/{name}'."
            yield "Hint: make sure your test modules/packages have valid Python names."
            yield "Traceback:"
            yield "/usr/lib/python3.10/importlib/__init__.py:126: in import_module"
            yield "    return _bootstrap._gcd_import(name[level:], package, level)"
            yield f"{name}: in <module>"
            yield "    from tests.samples import ..."
            yield "tests/samples.py:3: in <module>"
            yield "    from datetime import UTC, datetime, timedelta"
            yield (
                "E   ImportError: cannot import name 'UTC' from 'datetime' "
                "(/usr/lib/python3.10/datetime.py)"
            )
        for name in names:
            yield f"ERROR {name}"
        yield f"{len(names)} errors in {self._rng.uniform(0.5, 2):.2f}s"
        yield "job failed: exit code 2"
