"""The picture of the system shows the code as it is."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "picture.svg"
COMMAND = [sys.executable, "docs/_picture.py"]


def draw(folder: Path, **variables: str) -> bytes:
    """Returns the picture as the script draws it now."""
    environment = {name: value for name, value in os.environ.items() if "JAATO_GC" not in name}
    file = folder / "picture.svg"
    subprocess.run([*COMMAND, str(file)], cwd=ROOT, env=environment | variables, check=True)
    return file.read_bytes()


def test_picture_is_up_to_date(tmp_path: Path) -> None:
    assert draw(tmp_path) == PICTURE.read_bytes(), (
        "docs/picture.svg differs from the code: run python docs/_picture.py"
    )


def test_environment_variables_do_not_change_the_picture(tmp_path: Path) -> None:
    assert draw(tmp_path, JAATO_GC_THRESHOLD="42") == PICTURE.read_bytes()


def test_picture_is_described_and_loads_nothing() -> None:
    svg = ElementTree.fromstring(PICTURE.read_bytes())
    tags = {element.tag.rpartition("}")[2] for element in svg.iter()}
    addresses = [
        value
        for element in svg.iter()
        for name, value in element.items()
        if name.endswith("href") or value.startswith("url(")
    ]

    assert svg.get("role") == "img"
    assert {"title", "desc"} <= tags
    assert not tags & {"script", "image", "use", "foreignObject"}
    assert set(addresses) == {"url(#tip)"}
    assert "url(" not in PICTURE.read_text(encoding="utf-8").partition("</style>")[0]
