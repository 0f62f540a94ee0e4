"""Each check before a release finds the problem that it is for."""

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from releasing import building, changes, check
from releasing.api import breaks
from releasing.pages import read_settings
from releasing.releases import CORE, Build, checkout
from releasing.small_repository import Repository

PLUGIN = "jaato-gc-truncate"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-20\n\n- More.\n\n{earlier}"
EARLIER = "## [0.1.0] - 2026-11-16\n\n- First.\n"


def a_build(version: str, commit: str | None = None) -> Build:
    return Build(PLUGIN, Version(version), Path("source"), Path("dist"), commit)


# --- output ---


def test_the_check_says_that_there_is_no_earlier_release() -> None:
    assert list(check.describe(a_build("0.1.0"), [], tag=None, repository="")) == [
        f"checking {PLUGIN} 0.1.0 (this checkout)",
        f"  NO EARLIER RELEASE of {PLUGIN}: there is no API to compare with",
        "  no --tag: the changelog may have unreleased entries",
        "  repository is empty in releasing/settings.toml: a release needs it",
    ]


def test_the_check_names_the_last_release() -> None:
    earlier, tag = [a_build("0.1.0", commit="1234567890abcdef")], f"{PLUGIN}-v0.2.0"

    assert list(check.describe(a_build("0.2.0"), earlier, tag, repository="")) == [
        f"checking {PLUGIN} 0.2.0 (this checkout) for release as {PLUGIN}-v0.2.0",
        f"  last release: {PLUGIN} 0.1.0 (released from 1234567890ab)",
    ]


# --- selection ---


def test_a_tag_selects_its_distribution() -> None:
    assert check.distribution_of(f"{PLUGIN}-v0.1.0") == PLUGIN


@pytest.mark.parametrize("tag", ["v0.1.0", "jaato-gc-other-v0.1.0", f"{PLUGIN}-0.1.0"])
def test_a_tag_that_names_no_distribution_fails(tag: str) -> None:
    with pytest.raises(SystemExit, match="names no distribution in packages/"):
        check.distribution_of(tag)


def test_without_a_release_no_distribution_counts_as_changed(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit(CORE, "0.1.0")

    assert list(check.changed_distributions()) == []
    assert capsys.readouterr().out == (
        "jaato-gc: NO EARLIER RELEASE, there is nothing to compare with\n"
    )


def test_distributions_that_changed_since_their_release_are_selected(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.release(CORE, "0.1.0")
    repository.release(PLUGIN, "0.1.0")
    repository.new(CORE, "0.1.0", code="changed = True\n")
    building.make(checkout(PLUGIN))

    assert list(check.changed_distributions()) == [CORE]
    assert f"{PLUGIN}: unchanged since 0.1.0\n" in capsys.readouterr().out


def test_the_address_of_the_repository_is_needed_only_for_a_release() -> None:
    assert "repository is empty" not in check.check(checkout(PLUGIN), tag=None)
    if not read_settings().repository:
        problems = check.check(checkout(PLUGIN), tag=f"{PLUGIN}-v{checkout(PLUGIN).version}")
        assert "releasing/settings.toml: repository is empty" in problems


# --- tag, version, changelog ---


def versions(
    changelog: str = CHANGELOG.format(earlier=EARLIER),
    version: str = "0.2.0",
    tag: str | None = f"{PLUGIN}-v0.2.0",
    earlier: tuple[str, ...] = ("0.1.0",),
) -> list[str]:
    released = [Version(each) for each in earlier]
    return list(check.check_versions(a_build(version), released, changelog, tag))


def test_a_release_with_matching_tag_version_and_changelog_passes() -> None:
    assert versions() == []


def test_the_first_release_passes() -> None:
    assert versions(EARLIER, "0.1.0", f"{PLUGIN}-v0.1.0", earlier=()) == []


@pytest.mark.parametrize("tag", ["v0.2.0", f"{PLUGIN}-0.2.0", f"{PLUGIN}-v0.2.1", f"{CORE}-v0.2.0"])
def test_a_tag_that_does_not_match_fails(tag: str) -> None:
    assert versions(tag=tag) == [f"tag: expected {PLUGIN}-v0.2.0, got {tag}"]


def test_a_wrong_heading_fails() -> None:
    changelog = CHANGELOG.format(earlier=EARLIER)

    assert "no date" in versions(changelog.replace(" - 2026-11-20", ""))[0]
    assert "no date" in versions(changelog.replace("2026-11-20", "soon"))[0]
    assert versions(changelog.replace("0.2.0", "0.3.0")) == [
        "changelog: expected 0.2.0 as first version, got 0.3.0",
        "changelog: 0.2.0 has no heading, or not the first",
    ]
    assert versions(changelog.replace("[Unreleased]", "[Unreleased]\n\n- Not yet.")) == [
        "changelog: move the entries under [Unreleased] to [0.2.0]"
    ]
    assert versions(CHANGELOG.format(earlier="")) == [
        "changelog: the released version 0.1.0 has no heading"
    ]


def test_a_version_older_than_the_last_release_fails() -> None:
    assert "version 0.0.9 is older than the last release, 0.1.0" in versions(version="0.0.9")


def test_between_releases_the_changelog_may_have_unreleased_entries() -> None:
    changelog = f"## [Unreleased]\n\n- Something.\n\n{EARLIER}"

    assert versions(changelog, "0.1.0", tag=None) == []
    assert versions(changelog, "0.2.0", tag=None) == []
    assert versions(changelog, "0.2.0")


def test_a_version_may_be_unreleased_until_it_is_tagged() -> None:
    changelog = "## [0.1.0] - unreleased\n\n- First.\n"
    tag = f"{PLUGIN}-v0.1.0"

    assert versions(changelog, "0.1.0", tag=None, earlier=()) == []
    assert versions(changelog, "0.2.0", tag=None, earlier=())
    assert "no date" in versions(changelog, "0.1.0", tag, earlier=())[0]
    assert "no date" in versions(changelog, "0.1.0", tag=None, earlier=("0.1.0",))[0]


# --- contents of wheel and sdist ---


@pytest.fixture
def copy(tmp_path: Path) -> Build:
    """A copy of a build, for tests to damage."""
    build = checkout(PLUGIN)
    for file in (build.wheel, build.sdist):
        shutil.copy(file, tmp_path)
    return replace(build, place=tmp_path)


def test_clean_files_pass(copy: Build) -> None:
    assert [*check.check_wheel(copy), *check.check_sdist(copy), *check.check_rebuild(copy)] == []


@pytest.mark.parametrize(
    "stray", ["tests/test_it.py", "jaato_gc_truncate/.env", "jaato_gc_truncate/notes.txt"]
)
def test_an_unexpected_file_fails(copy: Build, stray: str) -> None:
    with zipfile.ZipFile(copy.wheel, "a") as wheel:
        wheel.writestr(stray, "")

    assert list(check.check_wheel(copy)) == [f"wheel: {stray} is unexpected"]
    assert list(check.check_rebuild(copy)) == ["sdist: builds a different wheel"]


def test_a_missing_file_fails(copy: Build) -> None:
    with zipfile.ZipFile(copy.wheel) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    with zipfile.ZipFile(copy.wheel, "w") as wheel:
        for name, content in contents.items():
            if not name.endswith("py.typed"):
                wheel.writestr(name, content)

    assert list(check.check_wheel(copy)) == ["wheel: jaato_gc_truncate/py.typed is missing"]


# --- public API ---

Change = Callable[[str, str, str], list[str]]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """Replaces a line of core, and returns the breaking changes."""
    source = checkout(CORE).source / "src"

    def change(module: str, old: str, new: str) -> list[str]:
        changed = shutil.copytree(source, tmp_path / "src", dirs_exist_ok=True)
        file = changed / "jaato_gc" / f"{module}.py"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")
        return breaks("jaato_gc", source, changed)

    return change


CROSSED = "def jaato_gc_threshold_crossed(\n    percent_used: float, threshold: float"
"""The beginning of a hook's signature. Further arguments may follow."""


@pytest.mark.parametrize(
    ("module", "old", "new", "found"),
    [
        ("__init__", '    "count_tokens",\n', "", "jaato_gc.count_tokens: no longer exported"),
        ("plugin", '    "fenced",\n', "", "jaato_gc.plugin.fenced: no longer exported"),
        (
            "session/session",
            "def undo(self, gc_id: str | None = None)",
            "def undo(self)",
            "jaato_gc.session.session.GCSession.undo: Parameter was removed",
        ),
        (
            "collecting/collection",
            "def remove_oldest(",
            "def remove_first(",
            "jaato_gc.collecting.collection.Collection.remove_oldest: Public object was removed",
        ),
        (
            "collecting/triggers",
            "def should_collect(\n",
            "def should_collect(\n    urgent: bool,\n",
            "jaato_gc.collecting.triggers.should_collect: Parameter was added as required",
        ),
        (
            "plugins/hookspecs",
            CROSSED,
            CROSSED.removesuffix(", threshold: float"),
            "jaato_gc_threshold_crossed(threshold): the hook's argument was removed",
        ),
        (
            "plugins/hookspecs",
            CROSSED,
            CROSSED.replace("crossed", "passed"),
            "jaato_gc_threshold_crossed: the hook was removed",
        ),
    ],
    ids=[
        "name",
        "name for plugins",
        "parameter",
        "method for plugins",
        "required parameter",
        "argument of a hook",
        "hook",
    ],
)
def test_a_breaking_change_is_found(
    change: Change, module: str, old: str, new: str, found: str
) -> None:
    assert found in change(module, old, new)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("plugins/hookspecs", CROSSED, CROSSED.replace("threshold:", "later: str, threshold:")),
        ("collecting/edit_log", "def remove_source(", "def remove_all("),
        ("session/session", "def undo(self, gc_id: str | None = None)",
         "def undo(self, gc_id: str | None = None, strict: bool = False)"),
    ],
    ids=["argument of a hook", "internal", "optional parameter"],
)  # fmt: skip
def test_additions_and_internal_changes_do_not_break(
    change: Change, module: str, old: str, new: str
) -> None:
    assert change(module, old, new) == []


@pytest.mark.parametrize(
    ("distribution", "last", "allowed"),
    [
        (CORE, "0.1.0", "1.0.0"),
        (CORE, "0.9.3", "1.0.0"),
        (CORE, "1.2.0", "2.0.0"),
        (PLUGIN, "0.1.4", "0.2.0"),
        (PLUGIN, "1.1.0", "2.0.0"),
    ],
)
def test_next_allowed_is_the_first_version_that_may_break(
    distribution: str, last: str, allowed: str
) -> None:
    assert changes.next_allowed(distribution, Version(last)) == Version(allowed)


def test_a_breaking_change_needs_a_new_minor_version(tmp_path: Path) -> None:
    now = checkout(PLUGIN)
    before = replace(now, version=Version("0.1.0"), source=tmp_path)
    shutil.copytree(now.source / "src", tmp_path / "src")
    init = tmp_path / "src" / "jaato_gc_truncate" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(text.replace("__all__ = [", '__all__ = ["create", '), encoding="utf-8")

    assert "  jaato_gc_truncate.create: no longer exported" in changes.check_api(
        replace(now, version=Version("0.1.1")), [before]
    )
    assert not list(changes.check_api(replace(now, version=Version("0.2.0")), [before]))


def test_a_sibling_required_without_a_range_fails() -> None:
    build = checkout(PLUGIN)
    build.metadata.replace_header("Requires-Dist", "jaato-gc==0.1.0")

    assert list(check.check_requirements(build)) == [
        "requires jaato-gc==0.1.0: expected a range, such as >=0.1,<1"
    ]


def test_a_release_needs_releases_of_what_it_requires(repository: Repository) -> None:
    core = repository.release(CORE, "0.1.0", "pluggy>=1")
    plugin = repository.new(PLUGIN, "0.1.0", "jaato-gc>=0.1,<1")
    newer = repository.new(PLUGIN, "0.2.0", "jaato-gc>=0.2,<1")

    assert [*check.check_order(core), *check.check_order(plugin)] == []
    assert list(check.check_order(newer)) == [
        "requires jaato-gc<1,>=0.2: no release is in this range: release jaato-gc first"
    ]
