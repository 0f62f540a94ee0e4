"""The system's Chromium for tests, driven by the Python package of Playwright.

Both have to be installed (Debian package ``chromium``). The browsers of Playwright are not used.
``JAATO_GC_CHROMIUM`` is the path of another Chromium.
``JAATO_GC_SCREENSHOTS`` is a folder in which to save screenshots.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
)
CHROMIUM = os.environ.get("JAATO_GC_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
)


@contextmanager
def new_page(width: int, height: int, scheme: str = "light") -> Iterator[Any]:
    """Opens an empty page without a network, and closes its browser at the end."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        viewport = {"width": width, "height": height}
        yield browser.new_page(viewport=viewport, color_scheme=scheme, offline=True)
        browser.close()


def save_screenshot(page: Any, name: str) -> None:
    """Saves a screenshot if a folder for them is set."""
    if folder := os.environ.get("JAATO_GC_SCREENSHOTS"):
        page.screenshot(path=Path(folder, f"{name}.png"))
