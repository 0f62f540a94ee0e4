"""Fixtures of several modules."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # the machine may be busy
settings.load_profile("no deadline")
sys.path.append(str(Path(__file__).parent))  # --import-mode=importlib does not add it


@pytest.fixture
def _restless() -> Iterator[None]:
    """Makes threads switch as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
