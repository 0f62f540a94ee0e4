import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from releasing import pages, releases
from releasing.clone import Clone
from releasing.rehearsal import STRATEGY
from releasing.releases import CORE, KIT
from releasing.sandbox import Sandbox, build_wheel, requirement
from releasing.small_repository import Repository

VERSION = "1.2"
PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
dependencies = {needs}

[project.entry-points."{group}"]
{entry_point} = "{module}{suffix}"
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """An empty environment."""
    return Sandbox(tmp_path / "environment")


@pytest.fixture
def a_plugin(tmp_path: Path) -> Callable[..., str]:
    """Builds the wheel of a plugin with one module, and returns a requirement for it."""

    def build(
        name: str,
        code: str,
        *,
        entry_point: str | None = None,
        needs: tuple[str, ...] = ("jaato-gc>=0.1,<1",),
        group: str = "jaato_gc",
        suffix: str = "",
        version: str = VERSION,
    ) -> str:
        project, module = tmp_path / f"{name}-{version}", name.replace("-", "_")
        project.mkdir()
        (project / f"{module}.py").write_text(code, encoding="utf-8")
        (project / "pyproject.toml").write_text(
            PYPROJECT.format(
                name=name,
                needs=list(needs),
                group=group,
                entry_point=entry_point or module,
                module=module,
                suffix=suffix,
                version=version,
            ),
            encoding="utf-8",
        )
        return requirement(build_wheel(project, name))

    return build


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository without releases, in the place of this one."""
    root = tmp_path / "repository"
    monkeypatch.setattr(releases, "ROOT", root)
    monkeypatch.setattr(pages, "ROOT", root)
    monkeypatch.setattr(releases, "DIST", tmp_path / "dist")
    monkeypatch.setattr(releases, "WHEELHOUSE", tmp_path / "wheelhouse")
    return Repository(root)


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    """A clone of this repository with one strategy, for the running Python only."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield Clone(tmp_path / "clone", [CORE, KIT, STRATEGY], [python])
    shutil.rmtree(tmp_path)  # with all environments
