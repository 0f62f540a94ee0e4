"""The release workflow runs for a tag, up to what it would upload."""

import shutil

import pytest

from releasing.clone import Clone
from releasing.dry_run import WORKFLOW, DryRun, expand
from releasing.rehearsal import STRATEGY
from releasing.releases import CORE

needs_jq = pytest.mark.skipif(
    not shutil.which("jq"), reason="NO DRY RUN: install jq, which the workflow uses"
)


def dry_run(clone: Clone, tag: str, *earlier: str) -> DryRun:
    """Returns a run for a tag in a clone that also has earlier tags."""
    for each in (tag, *earlier):
        clone.git("tag", each)
    folder = clone.folder.parent / "work"
    folder.mkdir()
    return DryRun(clone, tag, folder)


@needs_jq
def test_the_workflow_verifies_a_tag_and_uploads_its_sdist_and_wheel(
    clone: Clone, capfd: pytest.CaptureFixture[str]
) -> None:
    run = dry_run(clone, clone.tag(STRATEGY), clone.tag(CORE))

    run.run()

    printed = capfd.readouterr().out
    name, version = "jaato_gc_truncate", clone.version(STRATEGY)
    assert run.uploads == [f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.tar.gz"]
    assert f"{STRATEGY} {version} (this checkout): all checks passed" in printed
    assert f"{name}-{version}-py3-none-any.whl: OK" in printed
    assert f"would run: gh release create {run.tag}" in printed
    assert "gc_truncate" in (run.artifacts / "notes" / "changelog.md").read_text(encoding="utf-8")


@needs_jq
def test_a_tag_of_another_version_uploads_nothing(clone: Clone) -> None:
    run = dry_run(clone, f"{STRATEGY}-v99.0.0")

    with pytest.raises(SystemExit, match="Gather its files"):
        run.run()

    assert run.uploads == []


@needs_jq
def test_a_distribution_whose_core_is_not_released_uploads_nothing(
    clone: Clone, capfd: pytest.CaptureFixture[str]
) -> None:
    run = dry_run(clone, clone.tag(STRATEGY))

    with pytest.raises(SystemExit, match="Run the sessions"):
        run.run()

    assert "no release is in this range: release jaato-gc first" in capfd.readouterr().out
    assert run.uploads == []


@needs_jq
def test_a_selection_of_sessions_that_fails_uploads_nothing(clone: Clone) -> None:
    clone.replace(WORKFLOW, r'sessions: \.name == "release_check"', "sessions: .name ==")
    clone.commit("A filter that jq refuses")
    run = dry_run(clone, clone.tag(STRATEGY))

    with pytest.raises(SystemExit, match="Run the sessions"):
        run.run()

    assert run.uploads == []


def test_an_expression_without_a_value_is_an_error_unless_it_is_of_the_matrix() -> None:
    context = {"matrix": {"a": "1"}, "steps": {"tag": {"outputs": {"name": "x"}}}}

    assert expand("${{ matrix.a }}${{ matrix.b }}-${{steps.tag.outputs.name}}", context) == "1-x"
    with pytest.raises(SystemExit, match=r"steps\.tag\.outputs\.other .* has no value"):
        expand("${{ steps.tag.outputs.other }}", context)
