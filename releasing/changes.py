"""Compares a build with the releases before it: files, version, changelog and API."""

import re
import zipfile
from collections.abc import Iterator

from packaging.version import Version

from releasing.api import breaks
from releasing.releases import CORE, Build, commit_of, recorded_commits, tagged_commits

SECTION = re.compile(
    r"^## \[(?P<version>[^\]]+)\][^\n]*(?P<entries>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
REQUIREMENTS = ("Requires-Dist", "Requires-Python")


def changed_files(build: Build, last: Build) -> list[str]:
    """Return the files of the wheel that differ from a release, apart from version and README.

    Changed requirements count as the file METADATA.
    """
    now, before = _contents(build), _contents(last)
    return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))


def check_changes(build: Build, earlier: list[Build], changelog: str) -> Iterator[str]:
    """Check that changes since the last release have a new version and a changelog entry."""
    if not earlier:
        return
    last = earlier[-1]
    changed = changed_files(build, last)
    if not changed:
        return
    what = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
    if build.version == last.version:
        yield f"version: {what} changed since {last.version}: set a new version in _version.py"
    # Entries for the next version are under its heading, or under [Unreleased] until it has one.
    new = {"Unreleased", str(build.version)} - {str(last.version)}
    sections = SECTION.finditer(changelog)
    if not any(each["entries"].strip() for each in sections if each["version"] in new):
        yield f"changelog: {what} changed since {last.version}: add an entry"


def check_recorded(build: Build, tag: str | None) -> Iterator[str]:
    """Check that each version was released from one commit."""
    recorded, tagged = recorded_commits(build.distribution), tagged_commits(build.distribution)
    for version in sorted(recorded.keys() & tagged.keys()):
        if recorded[version] != tagged[version]:
            yield (
                f"version {version}: its tag names {tagged[version][:12]}, releases.toml "
                f"{recorded[version][:12]}: restore the one that was changed"
            )
    released = (recorded | tagged).get(build.version)
    if tag and released and released != (head := commit_of("HEAD")):
        yield (
            f"version {build.version} was released from {released[:12]}, this is {head[:12]}: "
            "set a new version"
        )


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


def _contents(build: Build) -> dict[str, object]:
    """Return what a wheel installs, by file name without the version."""
    package = build.distribution.replace("-", "_")
    ignored = {f"{package}/_version.py", "METADATA", "RECORD", "WHEEL"}
    with zipfile.ZipFile(build.wheel) as wheel:
        names = {name.rpartition(".dist-info/")[2]: name for name in wheel.namelist()}
        files = {name: wheel.read(names[name]) for name in names.keys() - ignored}
    headers = [sorted(build.metadata.get_all(each, [])) for each in REQUIREMENTS]
    return {**files, "METADATA": headers}
