"""Finds the earlier releases and builds their wheels from the released commits."""

import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from functools import cached_property
from pathlib import Path

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

    @cached_property
    def requirements(self) -> list[Requirement]:
        """All declared requirements, including those of extras."""
        return [Requirement(each) for each in self.metadata.get_all("Requires-Dist", [])]

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


def checkout(distribution: str) -> Build:
    """Return the build of this checkout, from the session `build`."""
    source = ROOT / "packages" / distribution
    version_file = source / "src" / distribution.replace("-", "_") / "_version.py"
    version = version_file.read_text(encoding="utf-8").rpartition("__version__ = ")[2].strip('"\n')
    return Build(distribution, Version(version), source, DIST)


def releases(distribution: str) -> list[Build]:
    """Return all releases, oldest first, from tags and releases.toml. Tags take precedence."""
    commits = tomllib.loads((ROOT / "releases.toml").read_text(encoding="utf-8"))
    found: dict[str, str] = dict(commits.get(distribution, {}))
    prefix = f"{distribution}-v"
    for tag in git("tag", "--list", f"{prefix}[0-9]*").decode().split():
        found[tag.removeprefix(prefix)] = git("rev-list", "-n1", tag).decode().strip()
    builds = []
    for version, commit in found.items():
        place = WHEELHOUSE / f"{distribution}-{version}-{commit[:12]}"
        builds.append(Build(distribution, Version(version), place / "source", place, commit))
    return sorted(builds, key=lambda build: build.version)


def make(build: Build) -> None:
    """Build the sdist and the wheel of a release, unless the wheelhouse has them."""
    if list(build.place.glob("*.whl")):
        return
    print(f"building {build}")
    assert build.commit
    try:
        archive = git("archive", f"{build.commit}:packages/{build.distribution}")
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{build}: this clone does not have the commit: run `git fetch --unshallow --tags`"
        ) from error
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(build.source, filter="data")
    folders = (str(build.source), f"--outdir={build.place}")
    command = [sys.executable, "-m", "build", "--no-isolation", *folders]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not list(build.place.glob(f"*-{build.version}-*.whl")):
        made = ", ".join(each.name for each in build.place.glob("*.whl"))
        raise SystemExit(f"{build}: the commit has another version, its wheel is {made}")


def core_for(plugin: Build, which: str) -> Build | None:
    """Return a core for a plugin: the oldest it allows, the newest release, or the checkout."""
    if which == "checkout":
        return checkout(CORE)
    released = releases(CORE)
    if which == "oldest":
        released = [core for core in released if plugin.allows(core)][:1]
    return released[-1] if released else None


def kit_for(plugin: Build, core: Build) -> Build | None:
    """Return the newest kit that allows a core; for a plugin from this checkout, its kit counts."""
    kits = releases(KIT) + ([] if plugin.commit else [checkout(KIT)])
    return next((kit for kit in reversed(kits) if kit.allows(core)), None)


def git(*arguments: str) -> bytes:
    """Run a git command in this repository and return its output."""
    run = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)
    return run.stdout


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for each in releases(name):
            make(each)
            print(each)
