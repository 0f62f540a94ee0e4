"""Checks that the tests run against the installed distribution."""

import importlib.metadata
import os
import sysconfig
from pathlib import Path

import pytest

import jaato_gc_lab
from jaato_gc_lab._version import __version__

PACKAGE_DIR = Path(jaato_gc_lab.__file__).resolve().parent


@pytest.mark.skipif(
    os.environ.get("JAATO_GC_EDITABLE") == "1",
    reason="JAATO_GC_EDITABLE=1 is set: the tests use an editable install",
)
def test_package_is_imported_from_site_packages() -> None:
    site_packages = Path(sysconfig.get_path("purelib")).resolve()

    assert PACKAGE_DIR.is_relative_to(site_packages)


def test_typing_marker_is_shipped() -> None:
    assert (PACKAGE_DIR / "py.typed").is_file()


def test_metadata_and_code_have_the_same_version() -> None:
    assert importlib.metadata.version("jaato-gc-lab") == __version__
