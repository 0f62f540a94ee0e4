"""The screenshots of terminals in the docs show what the commands print."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMMAND = Path(sys.executable).with_name("jaato-gc")
REMEDY = "differs from the command: run nox -s screenshots"


def words(lines: Iterable[str]) -> list[str]:
    """Returns the words of some text, without durations."""
    text = " ".join(lines).replace("\u00a0", " ")
    return re.sub(r"\b[\d.]+ ?(ms|s)\b", "…", text).split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screenshots")
    subprocess.run([COMMAND, "demo", "--sample", "run.json.gz"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem)
def test_screenshot_of_a_terminal_shows_what_the_command_prints(image: Path, folder: Path) -> None:
    svg = ElementTree.fromstring(image.read_bytes())
    shown = words("".join(element.itertext()) for element in svg.iter() if "text" in element.tag)
    end = next(at for at, word in enumerate(shown) if word.startswith("jaato-gc")) + 1
    arguments = re.findall(r"\$ jaato-gc (.*)", _first_line(svg))[0].split()
    printed = subprocess.run(
        [COMMAND, *arguments], cwd=folder, capture_output=True, encoding="utf-8", check=True
    ).stdout

    assert shown[end + len(arguments) :] == words(printed.splitlines()), REMEDY


def _first_line(svg: ElementTree.Element) -> str:
    texts = ["".join(each.itertext()) for each in svg.iter() if each.tag.endswith("}text")]
    return next(text.replace("\u00a0", " ") for text in texts if "jaato-gc" in text)
