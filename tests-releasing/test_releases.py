"""Earlier releases are found by tags and releases.toml, and built from their commits.

Each test makes a small repository with pretend releases, so none depends on a real one.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.version import Version

from releasing import releases
from releasing.releases import CORE, KIT, Build

PLUGIN = "jaato-gc-pretend"
PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
dynamic = ["version"]
requires-python = ">=3.11"
dependencies = {needs}

[tool.hatch.version]
path = "src/{module}/_version.py"
"""


@dataclass
class Repository:
    """A git repository with packages that have a version and requirements, and no code.

    Args:
        root: The folder of the repository; it is created.
    """

    root: Path

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.git("init", "--quiet")
        self.write("releases.toml", "")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *arguments: str) -> str:
        settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        command = ("git", *settings, "-c", "commit.gpgsign=false", *arguments)
        run = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return run.stdout.strip()

    def commit(self, name: str, version: str, *needs: str) -> str:
        """Commit a version of a package, and return the commit."""
        module, folder = name.replace("-", "_"), f"packages/{name}"
        text = PYPROJECT.format(name=name, module=module, needs=list(needs))
        self.write(f"{folder}/pyproject.toml", text)
        self.write(f"{folder}/src/{module}/__init__.py", "")
        self.write(f"{folder}/src/{module}/_version.py", f'__version__ = "{version}"\n')
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"{name} {version}")
        return self.git("rev-parse", "HEAD")

    def release(self, name: str, version: str, *needs: str) -> Build:
        """Commit, tag and build a version of a package."""
        self.commit(name, version, *needs)
        self.git("tag", f"{name}-v{version}")
        [build] = [each for each in releases.releases(name) if each.version == Version(version)]
        releases.make(build)
        return build


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository without releases, in the place of this one."""
    root = tmp_path / "repository"
    monkeypatch.setattr(releases, "ROOT", root)
    monkeypatch.setattr(releases, "DIST", root / "dist")
    monkeypatch.setattr(releases, "WHEELHOUSE", tmp_path / "wheelhouse")
    return Repository(root)


def test_without_releases_only_the_checkout_is_found(repository: Repository) -> None:
    for name in (CORE, KIT, PLUGIN):
        repository.commit(name, "0.1.0")
    plugin = releases.checkout(PLUGIN)

    assert str(plugin) == f"{PLUGIN} 0.1.0 (this checkout)"
    assert releases.releases(CORE) == releases.releases(PLUGIN) == []
    assert releases.core_for(plugin, "oldest") is None
    assert releases.core_for(plugin, "newest") is None
    assert releases.core_for(plugin, "checkout") == releases.checkout(CORE)


def test_releases_come_from_tags_and_the_file_and_are_sorted(repository: Repository) -> None:
    first, second, tenth = (repository.commit(CORE, f"0.{minor}.0") for minor in (1, 2, 10))
    repository.write("releases.toml", f'[{CORE}]\n"0.10.0" = "{tenth}"\n"0.2.0" = "{first}"\n')
    repository.git("tag", f"{CORE}-v0.1.0", first)
    repository.git("tag", f"{CORE}-v0.2.0", second)
    repository.git("tag", f"{KIT}-v0.3.0", second)

    found = [(str(build.version), build.commit) for build in releases.releases(CORE)]

    assert found == [("0.1.0", first), ("0.2.0", second), ("0.10.0", tenth)]


def test_a_release_is_built_once_from_its_commit(repository: Repository) -> None:
    release = repository.release(CORE, "0.1.0")
    repository.commit(CORE, "0.2.0")
    built = release.wheel.stat().st_mtime_ns
    releases.make(release)

    assert release.wheel.name == "jaato_gc-0.1.0-py3-none-any.whl"
    assert release.sdist.name == "jaato_gc-0.1.0.tar.gz"
    assert release.wheel.stat().st_mtime_ns == built
    version = release.source / "src" / "jaato_gc" / "_version.py"
    assert version.read_text(encoding="utf-8") == '__version__ = "0.1.0"\n'


def test_a_release_whose_commit_is_missing_is_an_error(repository: Repository) -> None:
    repository.write("releases.toml", f'[{CORE}]\n"0.1.0" = "{"0" * 40}"\n')
    [release] = releases.releases(CORE)

    with pytest.raises(SystemExit, match="this clone does not have the commit: run `git fetch"):
        releases.make(release)


def test_a_release_whose_commit_has_another_version_is_an_error(repository: Repository) -> None:
    repository.commit(CORE, "0.2.0")
    repository.git("tag", f"{CORE}-v0.1.0")
    [release] = releases.releases(CORE)

    with pytest.raises(SystemExit, match=r"another version, its wheel is jaato_gc-0\.2\.0"):
        releases.make(release)


def test_a_build_that_is_missing_is_an_error(repository: Repository) -> None:
    repository.commit(CORE, "0.1.0")

    with pytest.raises(SystemExit, match=r"dist/ has no \.whl of jaato-gc 0\.1\.0"):
        _ = releases.checkout(CORE).wheel


def test_the_oldest_core_is_the_oldest_that_the_plugin_allows(repository: Repository) -> None:
    oldest, middle, newest = (repository.release(CORE, f"0.{minor}.0") for minor in (1, 2, 3))
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.2,<0.3")

    assert not plugin.allows(oldest)
    assert releases.core_for(plugin, "oldest") == middle
    assert releases.core_for(plugin, "newest") == newest
    assert not plugin.allows(newest)


def test_the_kit_is_the_newest_that_allows_the_core(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0")
    older = repository.release(KIT, "0.1.0", "jaato-gc>=0.1,<1")
    repository.release(KIT, "0.2.0", "jaato-gc>=0.2,<1")
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")

    assert releases.kit_for(plugin, core) == older


def test_there_is_no_kit_for_a_core_that_no_release_allows(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0")
    repository.release(KIT, "0.2.0", "jaato-gc>=0.2,<1")
    plugin = repository.release(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")

    assert releases.kit_for(plugin, core) is None
