"""Makes the screenshots of the docs: the demo, inspect, the report, and the first page of the site.

    nox -s screenshots

The output of commands is drawn as SVG, so that a test can compare its text with the command. Pages
are photographed in the Chromium of the system.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
COLUMNS = 80
SAMPLE = "run.json.gz"
COMMANDS = {
    "demo": ["demo", "--out", "report.html"],
    "inspect": ["inspect", SAMPLE],
}
"""The commands in the screenshots of terminals, by the name of the image."""
DESK, PHONE = {"width": 1280, "height": 1080}, {"width": 390, "height": 844}

BACKGROUND, TEXT = (22, 24, 29), (222, 226, 230)
BLACK, RED, GREEN, YELLOW = (73, 80, 87), (255, 107, 107), (81, 207, 102), (252, 196, 25)
BLUE, MAGENTA, CYAN = (77, 171, 247), (204, 93, 232), (59, 201, 219)
THEME = TerminalTheme(BACKGROUND, TEXT, [BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, TEXT])
SVG = """\
<svg class="terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect fill="#16181d" width="{width}" height="{height}" rx="10"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""A terminal without fonts from other hosts, and without the frame of a window."""


def printed(arguments: list[str], folder: Path) -> str:
    """Returns what the command prints on a terminal with colours."""
    plain = {name: value for name, value in os.environ.items() if "JAATO_GC" not in name}
    variables = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS)}
    variables["PYTHONUTF8"] = "1"
    command = Path(sys.executable).with_name("jaato-gc")
    ended = subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=plain | variables,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return ended.stdout


def terminal(arguments: list[str], output: str) -> str:
    """Returns the picture of a terminal, with the command and its output."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), legacy_windows=False)
    console.print(Text("$ jaato-gc " + " ".join(arguments), "bold"))
    console.print(Text.from_ansi(output))
    return console.export_svg(theme=THEME, code_format=SVG, unique_id=arguments[0])


@contextmanager
def chromium() -> Iterator[Any]:
    """Starts the Chromium of the system, without access to the network."""
    playwright_api = importlib.import_module("playwright.sync_api")  # only this session has it

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", "--disable-quic", "--no-first-run"]
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=quiet)
        try:
            yield browser
        finally:
            browser.close()


def photograph(browser: Any, page: Path, name: str, size: dict[str, int], dark: bool) -> None:
    """Saves the first screen of a page."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_load_state("load")
    opened.screenshot(path=str(IMAGES / f"{name}.png"))
    context.close()


def main(site: Path) -> None:
    """Writes all screenshots into docs/images."""
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        printed(["demo", "--sample", SAMPLE], folder)
        for image, arguments in COMMANDS.items():
            picture = terminal(arguments, printed(arguments, folder))
            for target in (IMAGES, site / "images"):  # the site was built with older ones
                target.mkdir(exist_ok=True)
                (target / f"{image}.svg").write_text(picture, encoding="utf-8")
        report = folder / "report.html"
        photograph(browser, report, "report-light", DESK, dark=False)
        photograph(browser, report, "report-dark", DESK, dark=True)
        photograph(browser, report, "report-phone", PHONE, dark=False)
        photograph(browser, site / "index.html", "docs", DESK, dark=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
