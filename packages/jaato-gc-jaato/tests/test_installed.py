"""Guards for the installed distribution: what the other tests import is what users install."""

import importlib.metadata
import os
import sysconfig
from pathlib import Path

import pytest

import jaato_gc_jaato
from jaato_gc_jaato._version import __version__

PACKAGE_DIR = Path(jaato_gc_jaato.__file__).resolve().parent


@pytest.mark.skipif(
    os.environ.get("JAATO_GC_EDITABLE") == "1",
    reason="JAATO_GC_EDITABLE=1 is set: an editable install is tested, on purpose",
)
def test_imported_from_site_packages() -> None:
    site_packages = Path(sysconfig.get_path("purelib")).resolve()

    assert PACKAGE_DIR.is_relative_to(site_packages)


def test_typing_marker_is_shipped() -> None:
    assert (PACKAGE_DIR / "py.typed").is_file()


def test_metadata_has_the_version_of_the_code() -> None:
    assert importlib.metadata.version("jaato-gc-jaato") == __version__
