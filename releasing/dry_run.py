"""Runs the release workflow for a distribution in a temporary clone, without publishing.

``python -m releasing.dry_run jaato-gc`` reads .github/workflows/release.yml and runs its commands
for the tag of the current version. Actions are replaced: artifacts are folders, and instead of an
upload, the files are listed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from releasing.clone import Clone
from releasing.releases import distributions

WORKFLOW = ".github/workflows/release.yml"
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
# As on GitHub: only with `shell: bash` does a failing command in a pipe fail the step.
SHELLS = {None: ("bash", "-e"), "bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail")}
GITHUB = {"repository": "example/jaato-gc", "token": ""}


@dataclass
class DryRun:
    """A run of the workflow for a tag.

    Args:
        clone: The repository to release from; it has the tag.
        tag: The tag.
        folder: An empty folder for jobs and artifacts.
    """

    clone: Clone
    tag: str
    folder: Path
    uploads: list[str] = field(default_factory=list)
    """The files that would be uploaded to the index."""

    def __post_init__(self) -> None:
        self.workflow: dict[str, Any] = yaml.safe_load(self.clone.read(WORKFLOW))
        self.artifacts = self.folder / "artifacts"
        self.artifacts.mkdir()
        self.commands = self.folder / "commands"
        self.commands.mkdir()
        gh = self.commands / "gh"
        gh.write_text('#!/bin/sh\necho "would run: gh $*"\n', encoding="utf-8")
        gh.chmod(0o755)
        self.outputs: dict[str, dict[str, str]] = {}
        self.actions: dict[str, Callable[[Path, Mapping[str, Any]], None]] = {
            "actions/checkout": self._check_out,
            "actions/download-artifact": self._download,
            "actions/upload-artifact": self._upload,
            "pypa/gh-action-pypi-publish": self._publish,
            "./.github/actions/nox": lambda *_: None,  # this environment has nox
        }

    def run(self) -> None:
        """Run all jobs, each after those it needs.

        Raises:
            SystemExit: A command fails.
        """
        jobs = self.workflow["jobs"]
        needs = {name: as_list(job.get("needs")) for name, job in jobs.items()}
        for name in TopologicalSorter(needs).static_order():
            matrix = jobs[name].get("strategy", {}).get("matrix", {}).get("include", [{}])
            for number, values in enumerate(matrix):
                self._run_job(name, self.folder / f"{name}-{number}", values)

    def _run_job(self, name: str, workspace: Path, matrix: Mapping[str, str]) -> None:
        job = self.workflow["jobs"][name]
        steps: dict[str, Any] = {}
        needs = {each: {"outputs": outputs} for each, outputs in self.outputs.items()}
        context = {"github": GITHUB, "matrix": matrix, "needs": needs, "steps": steps}
        print(f"job: {expand(job['name'], context)}", flush=True)
        workspace.mkdir()
        for step in job["steps"]:
            if "uses" in step:
                action = step["uses"].partition("@")[0]
                if action not in self.actions:
                    raise SystemExit(f"{WORKFLOW}: add {action} to the actions of the dry run")
                self.actions[action](workspace, step.get("with", {}))
                continue
            env = {**job.get("env", {}), **step.get("env", {})}
            expanded = {key: expand(value, context) for key, value in env.items()}
            steps[step.get("id", "")] = {"outputs": self._run_command(step, workspace, expanded)}
        outputs = job.get("outputs", {})
        self.outputs[name] = {key: expand(value, context) for key, value in outputs.items()}

    def _run_command(
        self, step: Mapping[str, str], workspace: Path, env: Mapping[str, str]
    ) -> dict[str, str]:
        """Run the command of a step, and return the outputs that it writes."""
        output = self.folder / "output"
        output.write_text("", encoding="utf-8")
        default = self.workflow.get("defaults", {}).get("run", {}).get("shell")
        shell = SHELLS[step.get("shell", default)]
        path = os.pathsep.join([str(self.commands), str(Path(sys.executable).parent)])
        own = {"GITHUB_REF_NAME": self.tag, "GITHUB_OUTPUT": str(output)}
        own["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}"
        command = [*shell, "-c", step["run"]]
        done = subprocess.run(command, cwd=workspace, env={**os.environ, **own, **env}, check=False)
        if done.returncode:
            raise SystemExit(f"the step {step.get('name', step['run'])!r} failed: see its output")
        lines = output.read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def _check_out(self, workspace: Path, options: Mapping[str, Any]) -> None:
        whole = options.get("fetch-depth") == 0
        depth = () if whole else ("--depth=1",)
        source = self.clone.folder.as_uri()
        quietly = ("-c", "advice.detachedHead=false", "clone", "--quiet")
        self.clone.git(*quietly, "--branch", self.tag, *depth, source, str(workspace))

    def _upload(self, workspace: Path, options: Mapping[str, Any]) -> None:
        files = workspace / options["path"]
        if not any(files.iterdir()):
            raise SystemExit(f"the artifact {options['name']} has no files")
        shutil.copytree(files, self.artifacts / options["name"])

    def _download(self, workspace: Path, options: Mapping[str, Any]) -> None:
        files = self.artifacts / options.get("name", "")
        shutil.copytree(files, workspace / options.get("path", ""), dirs_exist_ok=True)

    def _publish(self, workspace: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.uploads += sorted(path.name for path in (workspace / "dist").iterdir())


def as_list(value: str | list[str] | None) -> list[str]:
    """Return the names in a key that may have one, several or none."""
    return [value] if isinstance(value, str) else value or []


def expand(text: str, context: Mapping[str, Any]) -> str:
    """Return a text with the values of its expressions.

    Raises:
        SystemExit: A value is missing. Values of a matrix are optional.
    """

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for name in match[1].split("."):
            if name not in found:
                if found is context["matrix"]:
                    return ""
                raise SystemExit(f"{WORKFLOW}: {match[0]} has no value")
            found = found[name]
        return str(found)

    return EXPRESSION.sub(value, text)


def main() -> None:
    """Run the workflow for a distribution of this checkout, and list the uploads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distribution", choices=distributions())
    name = parser.parse_args().distribution
    if missing := [each for each in ("bash", "git", "jq") if not shutil.which(each)]:
        raise SystemExit(f"install {', '.join(missing)}: the workflow uses them")
    with tempfile.TemporaryDirectory(prefix="jaato-gc-dry-run-") as folder:
        clone = Clone(Path(folder) / "clone")
        for each in clone.required_by(name):
            clone.git("tag", clone.tag(each))
        tag = clone.tag(name)
        clone.git("tag", tag)
        work = Path(folder) / "work"
        work.mkdir()
        run = DryRun(clone, tag, work)
        run.run()
    print("would upload:", *run.uploads, sep="\n  ")


if __name__ == "__main__":
    main()
