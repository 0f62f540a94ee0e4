"""What an author sees if a check fails: what was broken, which message, and the figures."""

import ast
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import pytest

import jaato_gc_testing
from jaato_gc_testing import StashConformance, StrategyConformance

TESTS = Path(__file__).parent
PACKAGE = Path(jaato_gc_testing.__file__).parent

CHECKS_OF_STRATEGIES = {name for name in dir(StrategyConformance) if name.startswith("test_")}
CHECKS_OF_STASHES = sorted(name for name in dir(StashConformance) if name.startswith("test_"))

ID = r"'m\d+'"

EXPECTED: dict[tuple[str, str], str] = {
    ("test_has_the_shape_of_a_plugin", "CannotBeShutDown"): r"CannotBeShutDown\.shutdown",
    ("test_has_the_shape_of_a_plugin", "HasNoName"): r"name is ''",
    ("test_options_can_come_from_a_file", "ReadsItsOptionsOnce"): r"pattern=re\.compile\('a\*'\)",
    ("test_options_can_come_from_a_file", "ChangesItsOptions"): r"option depth is 1, and 3 from",
    ("test_does_not_collect_far_below_every_limit", "AlwaysWantsTo"): r"threshold with 10 of 100,",
    ("test_collects_in_a_full_window", "NeverWantsTo"): r"false with 1000 of 1000 tokens",
    ("test_collects_in_a_full_window", "ReturnsAnUnknownReason"): r"reason 'my own reason'",
    (
        "test_leaves_an_empty_history_empty",
        "AlwaysAddsANotice",
    ): r"got \['msg-.*'\] with reason \w+",
    ("test_leaves_an_empty_history_empty", "FailsOnAnEmptyHistory"): r"it failed with reason \w+",
    ("test_breaks_no_invariant", "RemovesACallWithoutItsResult"): rf"call\w+ at message {ID}: ",
    ("test_breaks_no_invariant", "RepeatsAMessage"): rf"unique_ids at message {ID}: ",
    ("test_keeps_what_is_protected", "RemovesLocked"): r"m\d+ is protected \(locked\)",
    ("test_keeps_what_is_protected", "RemovesRecent"): r"m\d+ is protected \(recent\)",
    (
        "test_follows_every_policy",
        "NeverRemovesEphemeral",
    ): r"\['u2', .*\] are EPHEMERAL and without pressure, .*: \d+ tokens are left of at most \d",
    (
        "test_follows_every_policy",
        "RemovesPreservableWithoutPressure",
    ): r"\['u2', .*\] are PRESERVABLE and without pressure, .* `uses_policies = False`",
    ("test_follows_every_policy", "IgnoresPolicies"): r"\['u2', .*\] are LOCKED and were removed",
    ("test_removal_list_is_the_difference", "OmitsAnItem"): rf"not in the removal list: \[{ID}",
    ("test_removal_list_is_the_difference", "ListsRemainingMessages"): rf"unchanged .*\[{ID}",
    ("test_removal_list_is_the_difference", "ListsAMessageTwice"): rf"twice: \[{ID}",
    (
        "test_removal_list_is_the_difference",
        "MiscountsAnItem",
    ): rf"item '\w+' of .* has \d+ tokens, and its messages \[{ID}.*\] freed \d+",
    ("test_removal_list_is_the_difference", "RemovesToolSchemas"): r"'schemas' .* from plugin",
    ("test_counts_are_honest", "MiscountsTheTotal"): r"tokens_after is \d+, and a recount gives \d",
    ("test_counts_are_honest", "EnlargesTheContext"): r"grew from \d+ to \d+ tokens",
    ("test_outcome_is_honest", "SaysReachedWhenShort"): r"REACHED, with \d+ of at most \d+ left",
    ("test_outcome_is_honest", "AlwaysSaysNotNeeded"): rf"NOT_NEEDED, .* changed: .*{ID}",
    ("test_leaves_its_input_alone", "WritesIntoTheUsage"): r"collect wrote on the usage",
    (
        "test_select_only_reads",
        "Writes",
    ): r"select wrote on a read-only object.*\n.*test_kit\.py:\d+",
    ("test_keeps_no_collection", "KeepsItsCollection"): r"keeps its collection, with reason \w+",
    (
        "test_works_the_same_without_a_session",
        "CollectsDifferentlyAlone",
    ): rf"in a session, the history is another: missing: \[{ID}",
    ("test_is_deterministic", "CountsItsCalls"): rf"the second time, .* missing: \[{ID}",
    ("test_is_deterministic", "CountsItsInstances"): r"notification is 'collector \d+', not 'coll",
    ("test_is_idempotent_at_the_target", "RemovesOneMoreTurnEachTime"): rf"again: missing: \[{ID}",
    ("test_budget_follows", "ReplacesIds"): rf"protected_kept at message {ID}: it is protected",
    ("test_budget_follows", "UpdatesTheBudget"): r"a strategy can't change the budget",
    ("test_says_who_and_why", "ReturnsAnotherName"): r"'gc_budget': expected 'gc_oldest'",
    ("test_says_who_and_why", "AlwaysReturnsThreshold"): r"trigger_reason is .*: expected ",
    ("test_survives_a_long_session", "RemovesNothing"): r"core had to make the request fit \(old",
    ("test_survives_a_long_session", "AddsANoticeEachTime"): r"turn \d+: there are 2 notices",
    (
        "test_work_grows_with_the_history_only",
        "RecountsForEachTurn",
    ): r"100 turns take \d+ operations, and 400 turns \d+: \d+\.\d times",
}
"""The part of the output that says what was broken, by check and mutant."""

STRATEGIES = """
import test_kit
from jaato_gc_testing import StrategyConformance

for _, mutant, _ in test_kit.MUTANTS:
    name = f"Test{mutant.__name__}"
    globals()[name] = type(name, (StrategyConformance,), {"factory": staticmethod(mutant)})
"""

STASHES = """
import pytest
import test_stash
from jaato_gc_testing import StashConformance

for check, mutant in reversed(test_stash.MUTANTS):
    stash = pytest.fixture(lambda self, mutant=mutant: mutant())
    globals()[f"Test{check}"] = type(f"Test{check}", (StashConformance,), {"stash": stash})
"""
"""Has one mutant for each check, in a class that is named after the check."""

CONFTEST = """
from hypothesis import settings

settings.register_profile("same examples each time", derandomize=True, database=None)
settings.load_profile("same examples each time")
"""


def failures(folder: Path, source: str, checks: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Runs checks of classes as an author does. Returns the outputs, by ``Class.check``."""
    (folder / "pytest.ini").write_text("[pytest]\n")  # a project of its own, wherever it is
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_mine.py").write_text(source)
    report = folder / "report.xml"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            f"--junitxml={report}",
            *(f"test_mine.py::Test{name}::{check}" for check, name in checks),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    found = {}
    for case in ET.parse(report).iter("testcase"):
        name = case.attrib["classname"].rpartition(".Test")[2]
        failure = case.find("failure")
        found[f"{name}.{case.attrib['name']}"] = "" if failure is None else str(failure.text)
    return found


@pytest.fixture(scope="module")
def of_strategies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return failures(tmp_path_factory.mktemp("strategies"), STRATEGIES, EXPECTED)


@pytest.fixture(scope="module")
def of_stashes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    checks = [(check, check) for check in CHECKS_OF_STASHES]
    return failures(tmp_path_factory.mktemp("stashes"), STASHES, checks)


@pytest.mark.parametrize(("check", "mutant"), EXPECTED)
def test_a_failure_says_what_was_broken_with_message_ids_and_figures(
    of_strategies: dict[str, str], check: str, mutant: str
) -> None:
    output = of_strategies[f"{mutant}.{check}"]
    errors = "\n".join(line for line in output.splitlines() if line.startswith("E "))

    assert re.search(EXPECTED[check, mutant], errors), output
    assert f"def {check}(" in output or f"{check}(" in output
    assert "Explanation:" not in output


def test_every_check_of_strategies_has_an_expected_failure() -> None:
    assert {check for check, _ in EXPECTED} == CHECKS_OF_STRATEGIES


@pytest.mark.parametrize("check", CHECKS_OF_STASHES)
def test_a_failed_check_of_a_stash_shows_the_values(of_stashes: dict[str, str], check: str) -> None:
    output = of_stashes[f"{check}.{check}"]
    first = next(line for line in output.splitlines() if line.startswith("E "))

    assert re.search(r"assert \S+|Error: \S+|Failed: \S+", first), output
    assert not re.fullmatch(r"E +AssertionError", first.strip())
    assert "Explanation:" not in output


def test_every_module_with_checks_shows_the_values_of_a_failed_assertion() -> None:
    """Pytest rewrites the assertions of the modules that are registered for it."""
    registered = (PACKAGE / "_assertions.py").read_text(encoding="utf-8")
    for path in PACKAGE.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
            assert f'"jaato_gc_testing.{path.stem}"' in registered
