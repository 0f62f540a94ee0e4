"""Checks that the tests import the installed distribution."""

import importlib.metadata
import os
import sysconfig
from pathlib import Path

import pytest

import jaato_gc_formats
from jaato_gc_formats._version import __version__

PACKAGE_DIR = Path(jaato_gc_formats.__file__).resolve().parent


@pytest.mark.skipif(
    os.environ.get("JAATO_GC_EDITABLE") == "1",
    reason="JAATO_GC_EDITABLE=1 allows tests of an editable install",
)
def test_package_is_imported_from_site_packages() -> None:
    site_packages = Path(sysconfig.get_path("purelib")).resolve()

    assert PACKAGE_DIR.is_relative_to(site_packages)


def test_typing_marker_is_shipped() -> None:
    assert (PACKAGE_DIR / "py.typed").is_file()


def test_metadata_version_equals_the_version_in_the_code() -> None:
    assert importlib.metadata.version("jaato-gc-formats") == __version__
