"""Checks that distributions can be released: ``python -m releasing.check``.

Without arguments, it checks the distributions that changed since their last release; with names or
``--all``, those or all. ``--tag jaato-gc-v0.1.0`` checks the release itself: the tag has to match
the version, the changelog has to be complete, and the page on the index needs its links.
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

from releasing.changes import changed_files, check_api, check_changes, check_recorded
from releasing.pages import SETTINGS, check_page, read_settings
from releasing.releases import CORE, ROOT, Build, checkout, distributions, files_in, git, releases

SHIPPED_DATA = {"jaato-gc-lab": ("prices.toml", "sample/", "templates/")}
"""Data files that belong in the wheel, by distribution."""
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<date>.*)$", re.MULTILINE)
DATE = re.compile(r" - \d{4}-\d{2}-\d{2}")
UNRELEASED = " - unreleased"
"""Takes the place of the date until the version is released."""
IN_DIST_INFO = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
ADDED_TO_SDIST = {"PKG-INFO"}
"""Written by the build backend."""


def main() -> None:
    """Check the distributions that the arguments select, and fail with a list of all problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distributions", nargs="*", help="default: those that changed")
    parser.add_argument("--all", action="store_true", help="check all distributions")
    parser.add_argument("--tag", help="check the release with this tag")
    arguments = parser.parse_args()
    if arguments.tag:
        names = [distribution_of(arguments.tag)]
    elif arguments.all:
        names = distributions()
    else:
        names = arguments.distributions or list(changed_distributions())
    failed = [report for name in names if (report := check(checkout(name), arguments.tag))]
    if failed:
        raise SystemExit("\n".join(failed))


def distribution_of(tag: str) -> str:
    """Return the distribution that a tag names."""
    name = tag.rpartition("-v")[0]
    if name not in distributions():
        raise SystemExit(f"tag: {tag} names no distribution in packages/, expected <name>-vX.Y.Z")
    return name


def changed_distributions() -> Iterator[str]:
    """Yield the distributions that changed since their last release, and print the others."""
    for name in distributions():
        earlier = releases(name)
        if not earlier:
            print(f"{name}: NO EARLIER RELEASE, there is nothing to compare with")
        elif changed_files(checkout(name), earlier[-1]):
            yield name
        else:
            print(f"{name}: unchanged since {earlier[-1].version}")


def check(build: Build, tag: str | None) -> str:
    """Run all checks of a distribution, and return its problems as text, or ""."""
    earlier = releases(build.distribution)
    if tag:  # the clone may have the tag already
        earlier = [each for each in earlier if each.version != build.version]
    changelog = (build.source / "CHANGELOG.md").read_text(encoding="utf-8")
    pyproject = (build.source / "pyproject.toml").read_text(encoding="utf-8")
    settings = read_settings()
    for line in describe(build, earlier, tag, settings.repository):
        print(line)
    problems = [
        *check_versions(build, [each.version for each in earlier], changelog, tag),
        *check_recorded(build, tag),
        *check_changes(build, earlier, changelog),
        *check_api(build, earlier),
        *check_requirements(build),
        *check_page(build.distribution, pyproject, build.readme, settings),
        *check_wheel(build),
        *check_sdist(build),
        *check_rebuild(build),
    ]
    if tag:
        problems += check_order(build)
    if tag and not settings.repository:
        problems.append(f"{SETTINGS}: repository is empty: set the address of the repository")
    files = (str(build.wheel), str(build.sdist))
    if subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files]).returncode:
        problems.append("twine rejects the metadata: see its output above")
    if problems:
        return "\n".join([f"{build} cannot be released:", *problems])
    print(f"{build}: all checks passed")
    return ""


def describe(build: Build, earlier: list[Build], tag: str | None, repository: str) -> Iterator[str]:
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
        if not repository:
            yield f"  repository is empty in {SETTINGS}: a release needs it"


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


def check_order(build: Build) -> Iterator[str]:
    """Check that what it requires of this repository is released."""
    for each in build.requirements:
        if each.name in distributions() and not each.marker:
            versions = [release.version for release in releases(each.name)]
            if not any(each.specifier.contains(version) for version in versions):
                yield f"requires {each}: no release is in this range: release {each.name} first"


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
    yield from differences("sdist", names - ADDED_TO_SDIST, wanted)


def check_rebuild(build: Build) -> Iterator[str]:
    """Check that the sdist builds the same wheel, byte for byte."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(build.sdist) as sdist:
        sdist.extractall(name, filter="data")
        [project] = Path(name).iterdir()
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
        if (Path(name) / build.wheel.name).read_bytes() != build.wheel.read_bytes():
            yield "sdist: builds a different wheel"


def differences(where: str, names: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Yield unexpected names and missing names."""
    yield from (f"{where}: {name} is unexpected" for name in sorted({*names} - {*wanted}))
    yield from (f"{where}: {name} is missing" for name in sorted({*wanted} - {*names}))


def is_code(name: str) -> bool:
    """Return whether a file is part of a package, and not a test."""
    path = Path(name)
    return (path.suffix == ".py" or path.name == "py.typed") and "test" not in path.stem.split("_")


if __name__ == "__main__":
    main()
