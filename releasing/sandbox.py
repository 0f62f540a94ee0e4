"""A virtual environment for a test, and wheels to install in it."""

import os
import subprocess
import sys
from pathlib import Path

from releasing.releases import ROOT, Build

UV = (sys.executable, "-m", "uv", "--quiet")


class Sandbox:
    """A virtual environment.

    Args:
        folder: The folder of the environment; it is created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.interpreter = folder / "bin" / "python"
        subprocess.run([*UV, "venv", "--python", sys.executable, folder], check=True)

    def install(self, *requirements: str) -> None:
        """Install requirements with the resolver; third-party packages have the pinned versions.

        Raises:
            AssertionError: The resolver refuses the requirements.
        """
        if refusal := self._try_to_install(*requirements):
            raise AssertionError(refusal)

    def refusal(self, *requirements: str) -> str:
        """Return why the resolver refuses the requirements, in one line; "" if it installs them."""
        return self._try_to_install(*requirements)

    def force(self, requirement: str) -> None:
        """Install a requirement without its dependencies, as `--no-deps` does."""
        self._uv("install", "--no-deps", requirement).check_returncode()

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the environment, outside the folders of this repository."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith("JAATO_GC_")}
        return subprocess.run(
            [self.interpreter, *arguments],
            env=ours | env,
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def python(self, code: str, **env: str) -> str:
        """Run code and return its output.

        Raises:
            AssertionError: The code fails.
        """
        done = self.run("-c", code, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def conforms(self, test_module: Path) -> None:
        """Run a conformance suite with few examples.

        Raises:
            AssertionError: A test fails, or the module has no tests.
        """
        done = self.run(
            *("-m", "pytest", "-q", "-p", "releasing.few_examples", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), str(test_module)),
            PYTHONPATH=str(ROOT),
            JAATO_GC_EXAMPLES="1",
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _try_to_install(self, *requirements: str) -> str:
        done = self._uv("install", f"--constraint={ROOT / 'constraints.txt'}", *requirements)
        return " ".join(done.stderr.split()) if done.returncode else ""

    def _uv(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*UV, "pip", command, f"--python={self.interpreter}", *arguments],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )


def build_wheel(project: Path, distribution: str) -> Path:
    """Build the wheel of a project with hatchling and return its path."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    [wheel] = (project / "dist").glob(f"{distribution.replace('-', '_')}-*.whl")
    return wheel


def requirement(wheel: Path) -> str:
    """Return the requirement for exactly this wheel."""
    return f"{wheel.name.partition('-')[0]} @ {wheel.as_uri()}"


def requirements(*builds: Build) -> list[str]:
    """Return the requirements for exactly these wheels."""
    return [build.requirement for build in builds]
