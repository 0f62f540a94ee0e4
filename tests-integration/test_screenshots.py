"""The screenshots of terminals in the docs show what the commands print."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMMAND = Path(sys.executable).with_name("jaato-gc")
TERMINALS = sorted(IMAGES.glob("*.svg"))
COLOURED = {
    "FORCE_COLOR": "1",
    "COLORTERM": "truecolor",
    "COLUMNS": "80",
    "PYTHONUTF8": "1",
}
DURATION = re.compile(r"\d+(\.\d+)?(ms|s)\b")
STYLE = re.compile(r"\x1b\[[\d;]*m")


def without_spaces(text: str) -> str:
    """Returns text without styles, spaces, line ends and durations."""
    return DURATION.sub("…", "".join(STYLE.sub("", text).split()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screenshots")
    subprocess.run([COMMAND, "demo", "--sample", "run.json.gz"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("image", TERMINALS, ids=lambda path: path.stem)
def test_screenshot_shows_what_the_command_prints(image: Path, folder: Path) -> None:
    svg = ElementTree.fromstring(image.read_bytes())
    first, *others = ["".join(each.itertext()) for each in svg.iter() if each.tag.endswith("text")]
    command = first.replace("\u00a0", " ").removeprefix("$ jaato-gc ").split()
    printed = subprocess.run(
        [COMMAND, *command],
        cwd=folder,
        env=os.environ | COLOURED,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    shown = without_spaces("".join(others))
    assert shown == without_spaces(printed.stdout), "it differs: run nox -s screenshots"


@pytest.mark.parametrize("image", TERMINALS, ids=lambda path: path.stem)
def test_screenshot_loads_nothing(image: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"')]+", image.read_text(encoding="utf-8")))

    assert addresses <= {"http://www.w3.org/2000/svg"}
