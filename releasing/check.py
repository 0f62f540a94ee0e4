"""Checks that a distribution can be released: ``python -m releasing.check jaato-gc``.

``--tag jaato-gc-v0.1.0`` checks the release itself: the tag has to match the version, and the
changelog has to be complete. Without it, the changelog may have unreleased entries.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import Version

from releasing.api import breaks
from releasing.releases import CORE, ROOT, Build, checkout, git, releases

SHIPPED_DATA = {"jaato-gc-lab": ("prices.toml", "sample/", "templates/")}
"""Data files that belong in the wheel, by distribution."""
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<date>.*)$", re.MULTILINE)
DATE = re.compile(r" - \d{4}-\d{2}-\d{2}")
UNRELEASED = " - unreleased"
"""Takes the place of the date until the version is released."""
IN_DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
ALWAYS_IN_SDIST = {"PKG-INFO", ".gitignore"}
"""Added by the build backend; the ignore file is the repository's."""


def main() -> None:
    """Run all checks, and fail with a list of all problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distribution")
    parser.add_argument("--tag", help="check the release with this tag")
    arguments = parser.parse_args()
    build, earlier = checkout(arguments.distribution), releases(arguments.distribution)
    if arguments.tag:  # the clone may have the tag already
        earlier = [each for each in earlier if each.version != build.version]
    changelog = (build.source / "CHANGELOG.md").read_text(encoding="utf-8")
    for line in describe(build, earlier, arguments.tag):
        print(line)
    problems = [
        *check_versions(build, [each.version for each in earlier], changelog, arguments.tag),
        *check_requirements(build),
        *check_wheel(build),
        *check_sdist(build),
        *check_rebuild(build),
        *check_api(build, earlier),
    ]
    files = (str(build.wheel), str(build.sdist))
    if subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files]).returncode:
        problems.append("twine rejects the metadata: see its output above")
    if problems:
        raise SystemExit("\n".join([f"{build} cannot be released:", *problems]))
    print(f"{build}: all checks passed")


def describe(build: Build, earlier: list[Build], tag: str | None) -> Iterator[str]:
    """Yield lines that say which build is checked, and which release it is compared with."""
    yield f"checking {build}" + (f" for release as {tag}" if tag else "")
    if not earlier:
        yield f"  NO EARLIER RELEASE of {build.distribution}: there is no API to compare with"
    elif earlier[-1].version == build.version:
        yield f"  same version as the last release: {earlier[-1]}"
    else:
        yield f"  last release: {earlier[-1]}"
    if not tag:
        yield "  no --tag: the changelog may have unreleased entries"


def check_versions(
    build: Build, earlier: list[Version], changelog: str, tag: str | None = None
) -> Iterator[str]:
    """Check that tag, version and the first heading of the changelog agree."""
    headings = list(HEADING.finditer(changelog))
    dated = [each for each in headings if each["version"] != "Unreleased"]
    versions = [Version(each["version"]) for each in dated]
    # Only the version that comes next has no date yet.
    pending = None if tag or build.version in earlier else build.version
    for each, version in zip(dated, versions, strict=True):
        if each["date"] == UNRELEASED and version == pending:
            continue
        if not DATE.fullmatch(each["date"]):
            yield f"changelog: {each[0]!r} has no date, expected ## [X.Y.Z] - YYYY-MM-DD"
    if versions != sorted(versions, reverse=True):
        yield "changelog: the versions are not sorted, the newest has to come first"
    for version in earlier:
        if version not in versions:
            yield f"changelog: the released version {version} has no heading"
    if versions and versions[0] != build.version and versions[0] not in earlier:
        yield f"changelog: expected {build.version} as first version, got {versions[0]}"
    if earlier and build.version < earlier[-1]:
        yield f"version {build.version} is older than the last release, {earlier[-1]}"
    if tag is None:
        return
    if tag != f"{build.distribution}-v{build.version}":
        yield f"tag: expected {build.distribution}-v{build.version}, got {tag}"
    if build.version not in versions[:1]:
        yield f"changelog: {build.version} has no heading, or not the first"
    unreleased = re.search(r"^## \[Unreleased\](.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if unreleased and unreleased[1].strip():
        yield f"changelog: move the entries under [Unreleased] to [{build.version}]"


def check_requirements(build: Build) -> Iterator[str]:
    """Check that siblings are required by a range with a lower and an upper bound."""
    for each in build.requirements:
        if each.name.startswith(CORE) and each.name != build.distribution:
            operators = sorted(specifier.operator for specifier in each.specifier)
            if operators != ["<", ">="]:
                yield f"requires {each}: expected a range, such as >=0.1,<1"


def check_wheel(build: Build) -> Iterator[str]:
    """Check that the wheel has the package, its licence and metadata, and nothing else."""
    package = build.distribution.replace("-", "_")
    dist_info = f"{package}-{build.version}.dist-info"
    with zipfile.ZipFile(build.wheel) as wheel:
        names = set(wheel.namelist())
        licence = f"{dist_info}/licenses/LICENSE"
        if licence in names and wheel.read(licence) != (ROOT / "LICENSE").read_bytes():
            yield "wheel: LICENSE differs from the repository's"
    source = {f"{package}/{name}" for name in files_in(build.source / "src" / package)}
    metadata = {f"{dist_info}/{name}" for name in IN_DIST_INFO}
    wanted = source | {f"{package}/py.typed"} | metadata
    pyproject = (build.source / "pyproject.toml").read_text(encoding="utf-8")
    if "entry-points" not in pyproject and "[project.scripts]" not in pyproject:
        wanted.remove(f"{dist_info}/entry_points.txt")
    yield from differences("wheel", names, wanted)
    data = tuple(f"{package}/{name}" for name in SHIPPED_DATA.get(build.distribution, ()))
    for name in source:
        if not is_code(name) and not name.startswith(data):
            yield f"wheel: {name} is not code: remove it or add it to SHIPPED_DATA"


def check_sdist(build: Build) -> Iterator[str]:
    """Check that the sdist has exactly the files that git tracks in the package's folder."""
    with tarfile.open(build.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    tracked = git("ls-files", "-z", f"packages/{build.distribution}").decode().split("\0")
    prefix = f"packages/{build.distribution}/"
    wanted = {name.removeprefix(prefix) for name in tracked if name}
    yield from differences("sdist", names - ALWAYS_IN_SDIST, wanted)


def check_rebuild(build: Build) -> Iterator[str]:
    """Check that the sdist builds the same wheel, byte for byte."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(build.sdist) as sdist:
        sdist.extractall(name, filter="data")
        [project] = Path(name).iterdir()
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
        if (Path(name) / build.wheel.name).read_bytes() != build.wheel.read_bytes():
            yield "sdist: builds a different wheel"


def check_api(build: Build, earlier: list[Build]) -> Iterator[str]:
    """Check that the public API breaks only in a version that may break it."""
    before = [each for each in earlier if each.version <= build.version]
    if not before:
        return
    last, package = before[-1], build.distribution.replace("-", "_")
    found = breaks(package, last.source / "src", build.source / "src")
    needed = next_allowed(build.distribution, last.version)
    if found and build.version < needed:
        yield f"API: breaking changes since {last.version} need version {needed} or later:"
        yield from (f"  {each}" for each in found)
    elif found:
        print(f"  allowed breaking changes since {last.version}:", *found, sep="\n    ")
    else:
        print(f"  no breaking changes since {last.version}")


def next_allowed(distribution: str, last: Version) -> Version:
    """Return the first version that may break the API of the last release.

    Core stays compatible until 1.0, the other distributions within a minor version.
    """
    if distribution == CORE or last.major:
        return Version(f"{last.major + 1}.0.0")
    return Version(f"{last.major}.{last.minor + 1}.0")


def differences(where: str, names: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Yield unexpected names and missing names."""
    yield from (f"{where}: {name} is unexpected" for name in sorted({*names} - {*wanted}))
    yield from (f"{where}: {name} is missing" for name in sorted({*wanted} - {*names}))


def files_in(folder: Path) -> Iterator[str]:
    """Yield all files that git does not ignore, relative to the folder."""
    command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", str(folder))
    for name in git(*command).decode().split("\0"):
        if name and (ROOT / name).is_file():
            yield (ROOT / name).relative_to(folder).as_posix()


def is_code(name: str) -> bool:
    """Return whether a file is part of a package, and not a test."""
    path = Path(name)
    return (path.suffix == ".py" or path.name == "py.typed") and "test" not in path.stem.split("_")


if __name__ == "__main__":
    main()
