"""What several tests share: a home folder of their own, and imports of the helpers."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's import mode does not


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the developer's own configuration of jaato-server out of the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("JAATO_GC_THRESHOLD", "JAATO_GC_TARGET", "JAATO_GC_PRESSURE"):
        monkeypatch.delenv(name, raising=False)
