"""The test-suites of jaato-server run on our classes, through a map of module names.

They ship in its wheel. A test that fails needs a private attribute, or the page "Coming from JAATO"
says by name that it is different on purpose.
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jaato_names import REPORT

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "coming-from-jaato.md"
SUITES = [
    "shared/plugins/gc/tests/test_truncate.py",
    "shared/plugins/gc/tests/test_summarize.py",
    "shared/plugins/gc/tests/test_hybrid.py",
    "shared/plugins/gc_budget/tests/test_budget_gc.py",
    "shared/tests/test_instruction_budget.py",
    "shared/tests/test_gc_config.py",
]

THEIRS = [
    "test_instruction_budget::TestPayloadExceedsContextError::*",
    "test_gc_config::TestSubagentProfileWithGC::*",
    "test_gc_config::TestDiscoverProfilesWithGC::*",
]
"""Tests of classes of jaato-server that we have no counterpart of. They say nothing about us."""
PRIVATE = [
    "test_truncate::TestTruncateGCPlugin::test_initialize",
    "test_truncate::TestTruncateGCPlugin::test_shutdown",
    "test_summarize::TestSummarizeGCPlugin::test_initialize_with_summarizer",
    "test_summarize::TestFormatTurnsForSummary::test_formats_text_content",
    "test_summarize::TestFormatTurnsForSummary::test_formats_function_calls",
    "test_hybrid::TestHybridGCPlugin::test_initialize",
    "test_budget_gc::TestBudgetGCPlugin::test_initialize",
    "test_budget_gc::TestBudgetGCPlugin::test_shutdown",
    "test_budget_gc::TestRegressionContextLimitRecovery::test_ephemeral_candidates_*",
    "test_budget_gc::TestRegressionContextLimitRecovery::test_preservable_candidates_*",
    "test_budget_gc::TestRegressionContextLimitRecovery::test_apply_removals_*",
    "test_budget_gc::TestToolCallPairMap::*",
    "test_budget_gc::TestExpandRemovalPairs::*",
    "test_budget_gc::TestShapeDOrphanPairPreservesNarration::*",
    # They replace a function that the loader of jaato-server calls by a mock.
    "test_gc_config::TestLoadGCFromFile::test_load_valid_gc_json",
    "test_gc_config::TestLoadGCFromFile::test_load_gc_json_type_prefix_handling",
    "test_gc_config::TestLoadGCFromFile::test_load_gc_json_already_prefixed",
]
"""Tests of attributes and methods with an underscore, or of calls between functions."""

DIFFERENT = {
    "test_truncate::TestCollect::test_truncates_old_turns": "down to the target",
    "test_truncate::TestCollect::test_preserves_pinned_indices": "down to the target",
    "test_truncate::TestCollect::test_plugin_config_overrides_gc_config": "down to the target",
    "test_truncate::TestCollect::test_result_details": "down to the target",
    "test_truncate::TestCollect::test_notification_when_enabled": "texts of summaries and notices",
    "test_summarize::TestCollectWithSummarizer::test_summarizes_old_turns": (
        "texts of summaries and notices"
    ),
    "test_summarize::TestCollectWithSummarizer::test_result_details": "summaries are not turns",
    "test_hybrid::TestCollectWithoutSummarizer::test_truncates_without_summarizer": (
        "down to the target"
    ),
    "test_hybrid::TestCollectWithSummarizer::test_summarizes_old_and_middle": "ancient turns",
    "test_hybrid::TestGenerationalLayout::test_generational_boundaries": "ancient turns",
    "test_hybrid::TestNotification::test_notification_when_enabled": (
        "texts of summaries and notices"
    ),
    "test_hybrid::TestNotification::test_custom_notification_template": "down to the target",
    "test_budget_gc::TestCollectWithBudget::test_removes_ephemeral_oldest_first": (
        "LOCKED from above"
    ),
    "test_budget_gc::TestCollectFallback::test_fallback_without_budget": "down to the target",
    "test_budget_gc::TestRegressionContextLimitRecovery::test_end_to_end_*": (
        "messages are read-only"
    ),
    "test_budget_gc::TestEndToEndPairAwareGC::*": "messages are read-only",
    "test_instruction_budget::TestSourceEntry::test_effective_gc_policy_mixed_children": (
        "LOCKED from above"
    ),
    "test_instruction_budget::TestInstructionBudget::test_add_child_to_missing_parent": (
        "missing sources"
    ),
    "test_instruction_budget::TestEstimateTokens::test_default_ratio": "estimates",
    "test_instruction_budget::TestEstimateTokens::test_custom_ratio": "estimates",
    "test_gc_config::TestLoadGCFromFile::test_load_gc_json_invalid_json": "invalid files",
    "test_gc_config::TestLoadGCFromFile::test_load_gc_json_plugin_not_found": "invalid files",
}
"""Tests of what is different on purpose, each with the name of the difference on that page."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs the suites, and returns how each test ended."""
    try:
        wheel = importlib.metadata.distribution("jaato-server")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("jaato-server is not installed")
    if not wheel.version.startswith("0.15."):
        pytest.skip(f"jaato-server {wheel.version} is installed, the suites are those of 0.15")
    folder = tmp_path_factory.mktemp("upstream")
    report = folder / "report.json"
    arguments = ["--quiet", "--import-mode=importlib", "--tb=line", "-c", os.devnull]
    plugins = ["-p", "jaato_names", "-p", "no:cacheprovider", "-p", "no:xdist"]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, *plugins, f"--rootdir={folder}"]
        + [str(wheel.locate_file(suite)) for suite in SUITES],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, REPORT: str(report), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), run.stdout + run.stderr
    ended: dict[str, str] = json.loads(report.read_text(encoding="utf-8"))
    return ended


def matches(test: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), test) is not None


def test_87_of_the_140_tests_of_our_counterparts_pass(outcomes: dict[str, str]) -> None:
    theirs = [test for test in outcomes if any(matches(test, each) for each in THEIRS)]
    ours = [outcome for test, outcome in outcomes.items() if test not in theirs]

    assert (len(outcomes), len(theirs)) == (148, 8)
    assert (ours.count("passed"), ours.count("failed")) == (87, 53)


def test_a_test_fails_only_for_a_known_reason(outcomes: dict[str, str]) -> None:
    known = [*PRIVATE, *DIFFERENT]
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]

    assert [test for test in failed if not any(matches(test, each) for each in known)] == []
    assert len(failed) <= 53


def test_every_known_reason_is_still_one(outcomes: dict[str, str]) -> None:
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]

    for known in [*PRIVATE, *DIFFERENT]:
        assert any(matches(test, known) for test in failed), known


@pytest.mark.skipif(not PAGE.is_file(), reason="this is not a checkout of the repository")
@pytest.mark.parametrize("difference", sorted(set(DIFFERENT.values())))
def test_every_difference_is_on_the_page_for_users_of_jaato(difference: str) -> None:
    assert f"\n| {difference} | " in PAGE.read_text(encoding="utf-8")
