"""What several tests share: the providers, or rather a server on this machine that plays them."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's import mode does not

from loopback import Loopback, running


@pytest.fixture(scope="session")
def sdks() -> None:
    """Import what warns while Python compiles it, for the first time on this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import google.genai  # noqa: F401


@pytest.fixture
def providers(
    monkeypatch: pytest.MonkeyPatch,
    sdks: None,  # noqa: ARG001
) -> Iterator[Loopback]:
    """A server that the providers' own SDKs find by their environment variables."""
    with running() as loopback:
        for name, value in loopback.environment.items():
            monkeypatch.setenv(name, value)
        yield loopback
