"""Two pretend releases of core, the kit and one strategy, made with the real tools in a clone."""

import platform
from pathlib import Path

import pytest

from releasing.clone import Clone
from releasing.rehearsal import STRATEGY, rehearse
from releasing.releases import CORE, KIT

PYTHON = ".".join(platform.python_version_tuple()[:2])


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone with one strategy, for the running Python only."""
    return Clone(tmp_path / "clone", [CORE, KIT, STRATEGY], [PYTHON])


def test_two_releases_of_core_and_a_strategy_are_compatible(clone: Clone) -> None:
    rehearse(clone)
