"""The sessions of the noxfile are run by workflows, and described for contributors."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import ROOT
from repository import PYPROJECTS, nox_sessions

BY_HAND = {
    "bench": "times on shared machines say nothing",
    "demo": "it is the quick start of the README, for people",
    "lock": "it changes constraints.txt",
    "old_age": "it takes an hour, and test_old_age.py has a short form",
    "release_dry_run": "it is a rehearsal for people; release_tests runs it for a package",
    "screenshots": "it changes the docs; test_screenshots.py compares them with the commands",
    "peers": "it installs many other libraries, and changes the docs",
}
"""Sessions that no workflow runs, each with the reason."""
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


def jobs(workflow: Path) -> list[dict[str, Any]]:
    """Returns the jobs of a workflow."""
    return list(yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values())


def sessions_of(job: dict[str, Any]) -> set[str]:
    """Returns the sessions that a job runs, by name or from its matrix."""
    commands = "\n".join(step.get("run", "") for step in job.get("steps", []))
    found = set(re.findall(r"\bnox -s (\w+)", commands))
    if 'nox -s "$SESSION"' in commands:
        found.update(job["strategy"]["matrix"]["session"])
    if ".ci/run" in commands:
        found.update(
            name for name, options in nox_sessions().items() if options.get("default", True)
        )
    return found


def test_every_session_is_run_by_a_workflow_or_by_hand_for_a_reason() -> None:
    run = {name for workflow in WORKFLOWS for job in jobs(workflow) for name in sessions_of(job)}
    unknown = run - nox_sessions().keys()
    assert not unknown, f"workflows run sessions that the noxfile does not have: {unknown}"
    needed = {each for name in run for each in nox_sessions()[name].get("requires", [])}

    missing = nox_sessions().keys() - run - needed - BY_HAND.keys()
    assert not missing, f"add to .github/workflows, or with a reason to BY_HAND: {missing}"
    assert BY_HAND.keys() <= nox_sessions().keys() - run


def test_contributing_describes_every_session() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("\n## Sessions of nox\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    described = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
    assert described == nox_sessions().keys()


@pytest.mark.parametrize(
    "document",
    sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/*.md")]),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_documents_name_existing_sessions(document: Path) -> None:
    commands = re.findall(r"\bnox -s ((?:[a-z_]+ ?)+)", document.read_text(encoding="utf-8"))

    named = {name for command in commands for name in command.split()}
    assert named <= nox_sessions().keys()


def test_workflows_install_every_supported_python() -> None:
    action = yaml.safe_load((ROOT / ".github/actions/nox/action.yml").read_text(encoding="utf-8"))
    [installed] = [
        step["with"]["python-version"].split()
        for step in action["runs"]["steps"]
        if "python-version" in step.get("with", {})
    ]
    prefix = "Programming Language :: Python :: 3."
    classifiers = PYPROJECTS["jaato-gc"]["project"]["classifiers"]
    supported = [
        f"3.{each.removeprefix(prefix)}" for each in classifiers if each.startswith(prefix)
    ]

    assert sorted(installed) == sorted(supported)
