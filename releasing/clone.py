"""A temporary clone of this repository, for releases that are only rehearsed."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from releasing.pages import SETTINGS
from releasing.releases import CORE, ROOT, files_in

ADDRESS = "https://example.org/jaato-gc"
DATE = "2000-01-01"
CLASSIFIER = re.compile(r'^  "Programming Language :: Python :: 3\.\d+",\n', re.MULTILINE)
AUTHOR = ("-c", "user.name=Rehearsal", "-c", "user.email=rehearsal@example.org")
ONE_TEST = "def test_core_is_installed() -> None:\n    import jaato_gc  # noqa: F401\n"


class Clone:
    """A clone with the files of this checkout, an address, dated changelogs, and no release.

    It has no remote, so nothing in it can be pushed.

    Args:
        folder: The folder of the clone; it is created.
        packages: The distributions to keep; all if empty. Tests of all packages together are
            replaced by a trivial one if some are missing.
        pythons: The Pythons to test with; all if empty.
    """

    def __init__(
        self, folder: Path, packages: Sequence[str] = (), pythons: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        clone = ("git", "clone", "--quiet", "--local", "--no-tags", str(ROOT), str(folder))
        subprocess.run(clone, check=True)
        self.git("remote", "remove", "origin")
        self._take_files_of_the_checkout()
        if packages:
            self._keep(packages)
        if pythons:
            self._test_with(pythons)
        self.replace("releases.toml", r"(?s)^.*", "")
        self.replace(SETTINGS, r"(?m)^repository = .*$", f'repository = "{ADDRESS}"')
        self.run("-m", "releasing.pages")
        for name in self.distributions:
            changelog = f"packages/{name}/CHANGELOG.md"
            self.replace(changelog, r"(?m)^(## \[.*\]) - unreleased$", rf"\1 - {DATE}", count=None)
        self.commit("First release")

    @property
    def distributions(self) -> list[str]:
        """The distributions in the clone."""
        return sorted(path.parent.name for path in self.folder.glob("packages/*/pyproject.toml"))

    def required_by(self, name: str) -> set[str]:
        """Return the distributions in the clone that one requires, without extras."""
        project = tomllib.loads(self.read(f"packages/{name}/pyproject.toml"))["project"]
        needed = map(Requirement, project["dependencies"])
        names: set[str] = {canonicalize_name(each.name) for each in needed}
        return names.intersection(self.distributions)

    def version(self, name: str) -> str:
        """Return the version of a distribution."""
        found = re.search(r'__version__ = "(.*)"', self.read(self.version_file(name)))
        assert found
        return found[1]

    def version_file(self, name: str) -> str:
        """Return the path of the module with the version of a distribution."""
        return f"packages/{name}/src/{name.replace('-', '_')}/_version.py"

    def tag(self, name: str) -> str:
        """Return the tag of the current version of a distribution."""
        return f"{name}-v{self.version(name)}"

    def next_version(self, name: str) -> None:
        """Set the next minor version of a distribution, with an entry in its changelog."""
        major, minor, _ = self.version(name).split(".")
        version = f"{major}.{int(minor) + 1}.0"
        self.replace(self.version_file(name), '__version__ = ".*"', f'__version__ = "{version}"')
        section = f"## [{version}] - {DATE}\n\n- A rehearsed change.\n\n## ["
        self.replace(f"packages/{name}/CHANGELOG.md", r"(?m)^## \[", section, count=1)

    def read(self, file: str) -> str:
        """Return the text of a file."""
        return (self.folder / file).read_text(encoding="utf-8")

    def write(self, file: str, text: str) -> None:
        """Write a file."""
        (self.folder / file).write_text(text, encoding="utf-8")

    def replace(self, file: str, pattern: str, new: str, *, count: int | None = 1) -> None:
        """Replace the first matches of a pattern in a file; `count` None allows any number.

        Raises:
            SystemExit: The file has no match.
        """
        text, found = re.subn(pattern, new, self.read(file), count=count or 0)
        if count and not found:
            raise SystemExit(f"{file} has no {pattern!r}: update the rehearsal")
        self.write(file, text)

    def git(self, *arguments: str) -> str:
        """Run a git command and return its output."""
        command = ("git", *AUTHOR, "-c", "commit.gpgsign=false", *arguments)
        done = subprocess.run(
            command, cwd=self.folder, check=True, stdout=subprocess.PIPE, encoding="utf-8"
        )
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        """Commit all files."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def run(self, *arguments: str, fails: bool = False) -> str:
        """Run Python in the clone and return its output.

        Raises:
            SystemExit: It fails, or with `fails`, it does not fail.
        """
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if bool(done.returncode) != fails:
            outcome = "passed, but has to fail" if fails else "failed"
            raise SystemExit(
                f"{done.stdout}\n{' '.join(arguments)} {outcome}: see its output above"
            )
        return done.stdout

    def _take_files_of_the_checkout(self) -> None:
        """Take the files as they are, so that changes are rehearsed before they are committed."""
        self.git("rm", "--quiet", "-r", ".")
        for file in files_in(ROOT):
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, self.folder / file)

    def _keep(self, packages: Sequence[str]) -> None:
        for name in set(self.distributions).difference(packages):
            shutil.rmtree(self.folder / "packages" / name)
        # Extras of core that require other distributions.
        extras = r'(?m)^[a-z]+ = \["jaato-gc-.*\n|^all = \[\n(?:  .*\n)*\]\n'
        self.replace(f"packages/{CORE}/pyproject.toml", extras, "", count=None)
        shutil.rmtree(self.folder / "tests-integration")
        (self.folder / "tests-integration").mkdir()
        self.write("tests-integration/test_core.py", ONE_TEST)

    def _test_with(self, pythons: Sequence[str]) -> None:
        lines = "".join(f'  "Programming Language :: Python :: {each}",\n' for each in pythons)
        file = f"packages/{CORE}/pyproject.toml"
        first, *_, last = CLASSIFIER.finditer(text := self.read(file))
        self.write(file, text[: first.start()] + lines + text[last.end() :])
