"""A build is compared with its releases: changed code needs a version and a changelog entry."""

import pytest

from releasing import building, changes, releases
from releasing.releases import CORE
from releasing.small_repository import Repository

FIRST = "## [0.1.0] - 2026-11-16\n\n- First.\n"
SECOND = "## [0.2.0] - unreleased\n\n- Second.\n\n"


@pytest.mark.parametrize(
    ("needs", "code", "changed"),
    [
        ((), "", []),
        ((), "value = 1\n", ["jaato_gc/__init__.py"]),
        (("pluggy>=1",), "", ["METADATA"]),
    ],
    ids=["nothing", "code", "requirement"],
)
def test_changed_files_ignore_the_version(
    repository: Repository, needs: tuple[str, ...], code: str, changed: list[str]
) -> None:
    last = repository.release(CORE, "0.1.0")

    assert changes.changed_files(repository.new(CORE, "0.2.0", *needs, code=code), last) == changed


def test_changed_files_ignore_the_readme(repository: Repository) -> None:
    last = repository.release(CORE, "0.1.0")
    repository.write(f"packages/{CORE}/README.md", "# Another text\n")
    building.make(releases.checkout(CORE))

    assert changes.changed_files(releases.checkout(CORE), last) == []


def test_changed_code_needs_a_new_version_and_an_entry(repository: Repository) -> None:
    last = repository.release(CORE, "0.1.0")
    build = repository.new(CORE, "0.1.0", code="value = 1\n")

    assert list(changes.check_changes(build, [last], FIRST)) == [
        "version: jaato_gc/__init__.py changed since 0.1.0: set a new version in _version.py",
        "changelog: jaato_gc/__init__.py changed since 0.1.0: add an entry",
    ]


@pytest.mark.parametrize("section", [SECOND, SECOND.replace("0.2.0", "Unreleased")])
def test_changed_code_with_a_new_version_and_an_entry_passes(
    repository: Repository, section: str
) -> None:
    last = repository.release(CORE, "0.1.0")
    build = repository.new(CORE, "0.2.0", code="value = 1\n")

    assert list(changes.check_changes(build, [last], section + FIRST)) == []
    assert list(changes.check_changes(build, [last], section.replace("- Second.", "") + FIRST))


def test_unchanged_code_needs_no_new_version(repository: Repository) -> None:
    last = repository.release(CORE, "0.1.0")

    assert list(changes.check_changes(repository.new(CORE, "0.1.0"), [last], FIRST)) == []


def test_a_version_that_was_released_from_another_commit_fails(repository: Repository) -> None:
    first = repository.commit(CORE, "0.1.0")
    repository.write("releases.toml", f'[{CORE}]\n"0.1.0" = "{first}"\n')
    tag = f"{CORE}-v0.1.0"

    assert list(changes.check_recorded(releases.checkout(CORE), tag)) == []

    head = repository.commit(CORE, "0.1.0", code="value = 1\n")

    assert list(changes.check_recorded(releases.checkout(CORE), tag)) == [
        f"version 0.1.0 was released from {first[:12]}, this is {head[:12]}: set a new version"
    ]
    assert list(changes.check_recorded(releases.checkout(CORE), None)) == []


def test_a_tag_and_a_record_that_disagree_fail(repository: Repository) -> None:
    first = repository.commit(CORE, "0.1.0")
    repository.write("releases.toml", f'[{CORE}]\n"0.1.0" = "{first}"\n')
    second = repository.commit(CORE, "0.1.0", code="value = 1\n")
    repository.git("tag", f"{CORE}-v0.1.0")

    assert list(changes.check_recorded(releases.checkout(CORE), None)) == [
        f"version 0.1.0: its tag names {second[:12]}, releases.toml {first[:12]}: "
        "restore the one that was changed"
    ]
