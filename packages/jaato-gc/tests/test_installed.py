"""The installed distribution: the other tests import what users install."""

import ast
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import jaato_gc
from jaato_gc._version import __version__

PACKAGE_DIR = Path(jaato_gc.__file__).resolve().parent


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
    assert importlib.metadata.version("jaato-gc") == __version__


def test_every_public_name_can_be_imported() -> None:
    for name in jaato_gc.__all__:
        assert getattr(jaato_gc, name) is not None, name
    assert set(jaato_gc.__all__) <= set(dir(jaato_gc))
    with pytest.raises(AttributeError, match="'jaato_gc' has no attribute 'nonsense'"):
        jaato_gc.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(jaato_gc.__file__).read_text(encoding="utf-8"))
    told = {
        (alias.name, str(node.module))
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {(name, f"jaato_gc.{module}") for name, module in jaato_gc._HOMES.items()}

    assert told == loaded
    assert {name for name, _ in told} == set(jaato_gc.__all__) - {"__version__"}


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys, jaato_gc\n"
        "loaded = [name for name in sys.modules if name.startswith('jaato_gc')]\n"
        "print(*sorted(loaded), 'pydantic' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.split() == ["jaato_gc", "jaato_gc._version", "False"]
