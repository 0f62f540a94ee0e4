"""CHANGELOG.md has the entries of all packages, by release."""

import re
from collections.abc import Mapping

from documents import ROOT, load_script

changelog = load_script("docs/_changelog.py")

HEADER = "# Changelog\n\nThe format is based on …\n\n"
FIRST = "## [0.1.0] - 2026-12-01\n\n- First.\n"
PENDING = "## [0.1.0] - unreleased\n\n- First.\n"


def page(changelogs: Mapping[str, str]) -> list[str]:
    """Returns the headings and entries of the page, without its introduction."""
    text: str = changelog.page({name: HEADER + text for name, text in changelogs.items()})
    return [line for line in text.partition("\n## ")[2].splitlines() if line]


def test_changelog_is_up_to_date() -> None:
    assert changelog.page(changelog.changelogs()) == (ROOT / "CHANGELOG.md").read_text("utf-8"), (
        "CHANGELOG.md differs from packages/*/CHANGELOG.md: run python docs/_changelog.py"
    )


def test_every_package_is_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    names = re.findall(r"^### \[([\w-]+)\]", text, re.MULTILINE)

    assert set(names) == {path.parent.name for path in ROOT.glob("packages/*/CHANGELOG.md")}


def test_before_the_first_release_every_entry_is_unreleased() -> None:
    assert page({"jaato-gc": PENDING, "jaato-gc-otel": PENDING}) == [
        "Unreleased",
        "### [jaato-gc](packages/jaato-gc/CHANGELOG.md) 0.1.0",
        "- First.",
        "### [jaato-gc-otel](packages/jaato-gc-otel/CHANGELOG.md) 0.1.0",
        "- First.",
    ]


def test_releases_of_one_day_are_together_and_the_newest_day_is_first() -> None:
    second = "## [0.2.0] - 2026-12-24\n\n- Second.\n\n"
    third = "## [0.3.0] - unreleased\n\n- Third.\n\n"

    headings = [
        re.sub(r"\(.*\)", "", line)
        for line in page({"jaato-gc": third + second + FIRST, "jaato-gc-otel": FIRST})
        if not line.startswith("-")
    ]

    assert headings == [
        "Unreleased",
        "### [jaato-gc] 0.3.0",
        "## 2026-12-24",
        "### [jaato-gc] 0.2.0",
        "## 2026-12-01",
        "### [jaato-gc] 0.1.0",
        "### [jaato-gc-otel] 0.1.0",
    ]


def test_entries_without_a_version_are_unreleased() -> None:
    assert page({"jaato-gc": "## [Unreleased]\n\n- Next.\n\n" + FIRST})[:3] == [
        "Unreleased",
        "### [jaato-gc](packages/jaato-gc/CHANGELOG.md)",
        "- Next.",
    ]


def test_headings_without_entries_are_left_out() -> None:
    assert page({"jaato-gc": "## [Unreleased]\n\n" + FIRST})[0] == "2026-12-01"


def test_headings_below_a_version_are_one_level_lower() -> None:
    kinds = "## [0.1.0] - unreleased\n\n### Added\n\n- A name.\n"

    assert "#### Added" in page({"jaato-gc": kinds})


def test_links_lead_from_the_root_to_the_same_files() -> None:
    entries = (
        "- [a](../../docs/index.md#pages-by-task) [b](README.md)\n  [c](https://example.org)\n"
    )

    assert page({"jaato-gc": f"## [0.1.0] - unreleased\n\n{entries}"})[2:] == [
        "- [a](docs/index.md#pages-by-task) [b](packages/jaato-gc/README.md)",
        "  [c](https://example.org)",
    ]
