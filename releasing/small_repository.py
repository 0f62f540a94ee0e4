"""A git repository with small packages, to test the release tools with pretend releases."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from releasing import building, releases
from releasing.pages import SETTINGS
from releasing.releases import Build

NO_ADDRESS = 'repository = ""\nauthors = []\nkeywords = []\nurls = {}\n'
PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
dynamic = ["version"]
readme = "README.md"
requires-python = ">=3.11"
dependencies = {needs}

[tool.hatch.version]
path = "src/{module}/_version.py"
"""
AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


@dataclass
class Repository:
    """A git repository with packages that have a version and requirements, and little code.

    Args:
        root: The folder of the repository; it is created.
    """

    root: Path

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.git("init", "--quiet")
        self.write("releases.toml", "")
        self.write(SETTINGS, NO_ADDRESS)

    def write(self, name: str, text: str) -> None:
        """Write a file, without a commit."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> str:
        """Run a git command and return its output."""
        command = ("git", *AUTHOR, *arguments)
        run = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return run.stdout.strip()

    def commit(self, name: str, version: str, *needs: str, code: str = "") -> str:
        """Commit a version of a package, and return the commit."""
        module, folder = name.replace("-", "_"), f"packages/{name}"
        text = PYPROJECT.format(name=name, module=module, needs=list(needs))
        self.write(f"{folder}/pyproject.toml", text)
        self.write(f"{folder}/README.md", "# A package\n")
        self.write(f"{folder}/src/{module}/__init__.py", code)
        self.write(f"{folder}/src/{module}/_version.py", f'__version__ = "{version}"\n')
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"{name} {version}")
        return self.git("rev-parse", "HEAD")

    def release(self, name: str, version: str, *needs: str, code: str = "") -> Build:
        """Commit, tag and build a version of a package."""
        self.commit(name, version, *needs, code=code)
        self.git("tag", f"{name}-v{version}")
        [build] = [each for each in releases.releases(name) if each.version == Version(version)]
        building.make_release(build)
        return build

    def new(self, name: str, version: str, *needs: str, code: str = "") -> Build:
        """Commit and build a version of a package that is not released."""
        self.commit(name, version, *needs, code=code)
        build = releases.checkout(name)
        building.make(build)
        return build
