"""Assembles CHANGELOG.md from the changelogs of the packages, by the day of each release.

    python docs/_changelog.py   # write CHANGELOG.md again

Each package has its own versions, and several can be released on one day. Versions without a date
come first.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
INTRODUCTION = """\
# Changelog

The changes of all packages, by the day of their release. Each package has its own version and its
own changelog. `python docs/_changelog.py` assembles this page from those.
"""
UNRELEASED = "Unreleased"
SECTION = re.compile(
    r"^## \[(?P<version>[^\]]+)\](?: - (?P<day>\S+))?\n(?P<entries>.*?)(?=^## |\Z)",
    re.MULTILINE | re.DOTALL,
)
SUBHEADING = re.compile(r"^(?=###)", re.MULTILINE)
RELATIVE_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#)[^)\s#]+", re.IGNORECASE)


def changelogs() -> dict[str, str]:
    """Returns the changelog of every package, by its name."""
    files = sorted(ROOT.glob("packages/*/CHANGELOG.md"), key=lambda file: file.parent.name)
    return {file.parent.name: file.read_text(encoding="utf-8") for file in files}


def page(changelogs: Mapping[str, str]) -> str:
    """Returns the page: the days, newest first, and the packages that were released on each."""
    days: dict[str, list[str]] = defaultdict(list)
    for package, changelog in changelogs.items():
        for section in SECTION.finditer(changelog):
            if section["entries"].strip():
                days[day_of(section)].append(release(package, section))
    unreleased = days.pop(UNRELEASED, [])
    newest_first = sorted(days.items(), reverse=True)
    if unreleased:
        newest_first.insert(0, (UNRELEASED, unreleased))
    parts = [INTRODUCTION]
    for day, releases in newest_first:
        parts += [f"## {day}\n", *releases]
    return "\n".join(parts)


def day_of(section: re.Match[str]) -> str:
    """Returns the day of a release, or "Unreleased"."""
    dated = section["day"] and section["day"] != UNRELEASED.lower()
    return section["day"] if dated else UNRELEASED


def release(package: str, section: re.Match[str]) -> str:
    """Returns the entries of one version of a package, with a heading."""
    folder = f"packages/{package}"
    version = "" if section["version"] == UNRELEASED else f" {section['version']}"
    entries = SUBHEADING.sub("#", section["entries"].strip())
    return f"### [{package}]({folder}/CHANGELOG.md){version}\n\n{from_root(entries, folder)}\n"


def from_root(entries: str, folder: str) -> str:
    """Returns entries of a file in a folder, with links that start at the root."""
    return RELATIVE_LINK.sub(lambda path: posixpath.normpath(f"{folder}/{path[0]}"), entries)


if __name__ == "__main__":
    (ROOT / "CHANGELOG.md").write_text(page(changelogs()), encoding="utf-8")
