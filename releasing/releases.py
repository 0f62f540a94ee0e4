"""Finds the distributions of this checkout and their earlier releases."""

import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
WHEELHOUSE = ROOT / "wheelhouse"
CORE, KIT = "jaato-gc", "jaato-gc-testing"


@dataclass(frozen=True)
class Build:
    """A built distribution and its sources.

    Args:
        distribution: The name of the distribution.
        version: The version of the distribution.
        source: The package's folder at that version.
        place: The folder of the wheel and the sdist.
        commit: The released commit, or None for a build of this checkout.
    """

    distribution: str
    version: Version
    source: Path
    place: Path
    commit: str | None = None

    def __str__(self) -> str:
        origin = f"released from {self.commit[:12]}" if self.commit else "this checkout"
        return f"{self.distribution} {self.version} ({origin})"

    @cached_property
    def wheel(self) -> Path:
        """The path of the wheel."""
        return self._file(".whl")

    @cached_property
    def sdist(self) -> Path:
        """The path of the sdist."""
        return self._file(".tar.gz")

    def _file(self, suffix: str) -> Path:
        stem = self.distribution.replace("-", "_")
        found = list(self.place.glob(f"{stem}-{self.version}[-.]*{suffix.lstrip('.')}"))
        if len(found) != 1:
            raise SystemExit(
                f"{self.place.name}/ has no {suffix} of {self}: run `nox -s build wheelhouse`"
            )
        return found[0]

    @cached_property
    def metadata(self) -> Message:
        """The wheel's METADATA."""
        with zipfile.ZipFile(self.wheel) as wheel:
            [name] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
            return message_from_bytes(wheel.read(name))

    @property
    def readme(self) -> str:
        """The README in the wheel's METADATA."""
        text = self.metadata.get_payload(decode=True)
        assert isinstance(text, bytes)
        return text.decode()

    @cached_property
    def requirements(self) -> list[Requirement]:
        """All declared requirements, including those of extras."""
        return [Requirement(each) for each in self.metadata.get_all("Requires-Dist", [])]

    @property
    def siblings(self) -> list[str]:
        """The distributions of this repository that it requires besides core, without extras."""
        names = {canonicalize_name(each.name) for each in self.requirements if not each.marker}
        return sorted(name for name in names if name.startswith(f"{CORE}-"))

    def allows(self, other: "Build") -> bool:
        """Return whether the declared range for another distribution contains that build."""
        ranges = [
            each.specifier
            for each in self.requirements
            if canonicalize_name(each.name) == other.distribution
            and "extra" not in str(each.marker)
        ]
        return all(each.contains(other.version, prereleases=True) for each in ranges)

    @property
    def requirement(self) -> str:
        """A requirement for exactly this wheel."""
        return f"{self.distribution} @ {self.wheel.as_uri()}"

    @property
    def requirement_with_extras(self) -> str:
        """A requirement for exactly this wheel, with the extras that require no sibling."""
        extras = set(self.metadata.get_all("Provides-Extra", []))
        for each in self.requirements:
            if each.marker and each.name.startswith(CORE):
                extras -= {extra for extra in extras if each.marker.evaluate({"extra": extra})}
        suffix = f"[{','.join(sorted(extras))}]" if extras else ""
        return self.requirement.replace(" @", f"{suffix} @", 1)


def distributions() -> list[str]:
    """Return the names of all distributions in packages/."""
    return sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


def plugins() -> list[str]:
    """Return the distributions that core discovers as plugins."""
    return [name for name in distributions() if "jaato_gc" in project(name).get("entry-points", {})]


def strategies() -> list[str]:
    """Return the plugins that register a strategy."""
    hook = "def jaato_gc_register_strategies("
    return [
        name
        for name in plugins()
        if any(
            hook in path.read_text(encoding="utf-8")
            for path in ROOT.glob(f"packages/{name}/src/**/*.py")
        )
    ]


def project(distribution: str) -> dict[str, Any]:
    """Return the table `project` of a distribution's pyproject.toml."""
    path = ROOT / "packages" / distribution / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return found


def checkout(distribution: str) -> Build:
    """Return the build of this checkout, from the session `build`."""
    source = ROOT / "packages" / distribution
    version_file = source / "src" / distribution.replace("-", "_") / "_version.py"
    version = version_file.read_text(encoding="utf-8").rpartition("__version__ = ")[2].strip('"\n')
    return Build(distribution, Version(version), source, DIST)


def releases(distribution: str) -> list[Build]:
    """Return all releases, oldest first, from tags and releases.toml. Tags take precedence."""
    found = recorded_commits(distribution) | tagged_commits(distribution)
    builds = []
    for version, commit in found.items():
        place = WHEELHOUSE / f"{distribution}-{version}-{commit[:12]}"
        source = place / "source" / "packages" / distribution
        builds.append(Build(distribution, version, source, place, commit))
    return sorted(builds, key=lambda build: build.version)


def recorded_commits(distribution: str) -> dict[Version, str]:
    """Return the commits of the releases in releases.toml, by version."""
    recorded = tomllib.loads((ROOT / "releases.toml").read_text(encoding="utf-8"))
    return {Version(each): commit for each, commit in recorded.get(distribution, {}).items()}


def tagged_commits(distribution: str) -> dict[Version, str]:
    """Return the commits of the releases with a tag, by version."""
    prefix = f"{distribution}-v"
    tags = git("tag", "--list", f"{prefix}[0-9]*").decode().split()
    return {Version(tag.removeprefix(prefix)): commit_of(tag) for tag in tags}


def commit_of(revision: str) -> str:
    """Return the commit that a tag or another revision names."""
    return git("rev-list", "-n1", revision).decode().strip()


def core_for(plugin: Build, which: str) -> Build | None:
    """Return a core for a plugin: the oldest it allows, the newest release, or the checkout."""
    if which == "checkout":
        return checkout(CORE)
    released = releases(CORE)
    if which == "oldest":
        released = [core for core in released if plugin.allows(core)][:1]
    return released[-1] if released else None


def sibling_for(plugin: Build, name: str, core: Build) -> Build | None:
    """Return the newest release of a sibling that allows a core.

    For a plugin from this checkout, the sibling of this checkout counts too.
    """
    found = releases(name) + ([] if plugin.commit else [checkout(name)])
    return next((each for each in reversed(found) if each.allows(core)), None)


def git(*arguments: str) -> bytes:
    """Run a git command in this repository and return its output."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)
    return run.stdout


def files_in(folder: Path) -> Iterator[str]:
    """Yield all files that git does not ignore, relative to the folder."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", str(folder))
    for name in git(*command).decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield (ROOT / name).relative_to(folder).as_posix()
