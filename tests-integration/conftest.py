"""What several tests share: a server that plays the providers, and the seed documents."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's import mode does not

from loopback import Loopback, running
from seed_documents import Seeds


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


@pytest.fixture(scope="session")
def seeds() -> Seeds:
    """The documents that JAATO_GC_SEEDS names, or those beside the repository."""
    given = os.environ.get("JAATO_GC_SEEDS")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "seeds"
    if not folder.is_dir():
        if given:
            pytest.fail(f"JAATO_GC_SEEDS={given}: the folder does not exist")
        pytest.skip("the seed documents are not beside the repository, and JAATO_GC_SEEDS is unset")
    return Seeds(folder)
