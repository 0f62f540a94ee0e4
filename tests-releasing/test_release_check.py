"""The checks before a release find what they are there to find."""

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from releasing import check
from releasing.api import breaks
from releasing.releases import CORE, Build, checkout

PLUGIN = "jaato-gc-truncate"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-20\n\n- More.\n\n{earlier}"
EARLIER = "## [0.1.0] - 2026-11-16\n\n- First.\n"


def a_build(version: str, distribution: str = PLUGIN) -> Build:
    return Build(distribution, Version(version), Path("source"), Path("dist"))


# --- tag, version, changelog ---


def versions(
    changelog: str = CHANGELOG.format(earlier=EARLIER),
    version: str = "0.2.0",
    tag: str | None = f"{PLUGIN}-v0.2.0",
) -> list[str]:
    return list(check.check_versions(a_build(version), [Version("0.1.0")], changelog, tag))


def test_a_release_in_good_order_passes() -> None:
    assert versions() == []


@pytest.mark.parametrize("tag", ["v0.2.0", f"{PLUGIN}-0.2.0", f"{PLUGIN}-v0.2.1", f"{CORE}-v0.2.0"])
def test_another_tag_fails(tag: str) -> None:
    assert versions(tag=tag) == [f"tag {tag} is not {PLUGIN}-v0.2.0"]


def test_a_wrong_heading_fails() -> None:
    changelog = CHANGELOG.format(earlier=EARLIER)

    assert "no date" in versions(changelog.replace(" - 2026-11-20", ""))[0]
    assert "no date" in versions(changelog.replace("2026-11-20", "soon"))[0]
    assert versions(changelog.replace("0.2.0", "0.3.0")) == [
        "changelog: the first version is 0.3.0, but this is 0.2.0",
        "changelog: the first version is not 0.2.0",
    ]
    assert versions(changelog.replace("[Unreleased]", "[Unreleased]\n\n- Not yet.")) == [
        "changelog: something is still Unreleased"
    ]
    assert versions(CHANGELOG.format(earlier="")) == [
        "changelog: no heading for 0.1.0, which was released"
    ]


def test_a_version_that_goes_back_fails() -> None:
    assert "version 0.0.9 is older than the last release, 0.1.0" in versions(version="0.0.9")


def test_between_releases_the_changelog_may_say_unreleased() -> None:
    changelog = f"## [Unreleased]\n\n- Something.\n\n{EARLIER}"

    assert versions(changelog, "0.1.0", tag=None) == []
    assert versions(changelog, "0.2.0", tag=None) == []
    assert versions(changelog, "0.2.0")


# --- what is in the files ---


@pytest.fixture
def copy(tmp_path: Path) -> Build:
    """A package of ours, to be spoiled."""
    build = checkout(PLUGIN)
    for file in (build.wheel, build.sdist):
        shutil.copy(file, tmp_path)
    return replace(build, place=tmp_path)


def test_clean_files_pass(copy: Build) -> None:
    assert [*check.check_wheel(copy), *check.check_sdist(copy), *check.check_rebuild(copy)] == []


@pytest.mark.parametrize(
    "stray", ["tests/test_it.py", "jaato_gc_truncate/.env", "jaato_gc_truncate/notes.txt"]
)
def test_a_stray_file_fails(copy: Build, stray: str) -> None:
    with zipfile.ZipFile(copy.wheel, "a") as wheel:
        wheel.writestr(stray, "")

    assert list(check.check_wheel(copy)) == [f"wheel: {stray} does not belong there"]
    assert list(check.check_rebuild(copy)) == ["sdist: it builds another wheel"]


def test_a_missing_file_fails(copy: Build) -> None:
    with zipfile.ZipFile(copy.wheel) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    with zipfile.ZipFile(copy.wheel, "w") as wheel:
        for name, content in contents.items():
            if not name.endswith("py.typed"):
                wheel.writestr(name, content)

    assert list(check.check_wheel(copy)) == ["wheel: jaato_gc_truncate/py.typed is missing"]


# --- the public interface ---

Change = Callable[[str, str, str], list[str]]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """What breaks when a line of core is another."""
    source = checkout(CORE).source / "src"

    def change(module: str, old: str, new: str) -> list[str]:
        changed = shutil.copytree(source, tmp_path / "src", dirs_exist_ok=True)
        file = changed / "jaato_gc" / f"{module}.py"
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")
        return breaks("jaato_gc", source, changed)

    return change


CROSSED = "def jaato_gc_threshold_crossed(percent_used: float, threshold: float"
"""How a hook begins; it may have grown arguments since."""


@pytest.mark.parametrize(
    ("module", "old", "new", "found"),
    [
        ("__init__", '    "fenced",\n', "", "jaato_gc.fenced: no longer exported"),
        (
            "_base_strategy",
            "def effective(self, config: GCConfig)",
            "def effective(self)",
            "jaato_gc._base_strategy.GCStrategy.effective: Parameter was removed",
        ),
        (
            "_triggers",
            "def should_collect(\n",
            "def should_collect(\n    urgent: bool,\n",
            "jaato_gc._triggers.should_collect: Parameter was added as required",
        ),
        (
            "_hookspecs",
            CROSSED,
            "def jaato_gc_threshold_crossed(percent_used: float",
            "jaato_gc_threshold_crossed(threshold): the hook's argument was removed",
        ),
        (
            "_hookspecs",
            CROSSED,
            CROSSED.replace("crossed", "passed"),
            "jaato_gc_threshold_crossed: the hook was removed",
        ),
    ],
    ids=["name", "parameter", "required parameter", "argument of a hook", "hook"],
)
def test_a_break_is_found(change: Change, module: str, old: str, new: str, found: str) -> None:
    assert found in change(module, old, new)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("_hookspecs", CROSSED, CROSSED.replace("threshold:", "later: str, threshold:")),
        ("_takings", "def drop(", "def drop_source("),
        ("_base_strategy", "def effective(self, config: GCConfig)",
         "def effective(self, config: GCConfig, strict: bool = False)"),
    ],
    ids=["argument of a hook", "internal", "optional parameter"],
)  # fmt: skip
def test_growth_and_internals_are_no_break(change: Change, module: str, old: str, new: str) -> None:
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
def test_the_version_that_may_break(distribution: str, last: str, allowed: str) -> None:
    assert check.next_allowed(distribution, Version(last)) == Version(allowed)


def test_a_break_without_the_step_fails_and_with_it_passes(tmp_path: Path) -> None:
    now = checkout(PLUGIN)
    before = replace(now, version=Version("0.1.0"), source=tmp_path)
    shutil.copytree(now.source / "src", tmp_path / "src")
    init = tmp_path / "src" / "jaato_gc_truncate" / "__init__.py"
    text = init.read_text(encoding="utf-8")
    init.write_text(text.replace("__all__ = [", '__all__ = ["create", '), encoding="utf-8")

    assert "  jaato_gc_truncate.create: no longer exported" in check.check_api(
        replace(now, version=Version("0.1.1")), [before]
    )
    assert not list(check.check_api(replace(now, version=Version("0.2.0")), [before]))


def test_a_sibling_is_required_by_a_range() -> None:
    build = checkout(PLUGIN)
    build.metadata.replace_header("Requires-Dist", "jaato-gc==0.1.0")

    assert list(check.check_requirements(build)) == [
        "requires jaato-gc==0.1.0: give a range, such as >=0.1,<1"
    ]
