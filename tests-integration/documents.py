"""Reads the documents of this repository, and loads the scripts that generate them."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]

FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,}|~{3,}) *(?P<info>[^`]*)")


@dataclass
class Block:
    """A fenced block of a document, or one line of prose.

    Args:
        line: The number of its first line of content, counted from 0.
        info: The text after the opening fence; ``None`` for prose.
        text: Its lines, without fences and their indentation.
    """

    line: int
    info: str | None
    text: str

    @property
    def language(self) -> str:
        """The first word after the opening fence."""
        return (self.info or "").partition(" ")[0].lower()

    @property
    def title(self) -> str | None:
        """The file that the block belongs in."""
        found = re.search(r'title="([^"]+)"', self.info or "")
        return found[1] if found else None


def read_blocks(text: str) -> Iterator[Block]:
    """Yields the fenced blocks and the lines of prose of a document, in order."""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        fence = FENCE.fullmatch(lines[position])
        if not fence:
            yield Block(position, None, lines[position])
            position += 1
            continue
        start = position = position + 1
        closing = re.compile(rf" *{re.escape(fence['marks'])}{re.escape(fence['marks'][0])}* *")
        while position < len(lines) and not closing.fullmatch(lines[position]):
            position += 1
        content = [
            re.sub(rf"^ {{0,{len(fence['indent'])}}}", "", each) for each in lines[start:position]
        ]
        yield Block(start, fence["info"].strip(), "\n".join(content) + "\n")
        position += 1


def blocks_of(document: Path) -> list[Block]:
    """Returns the blocks of a file: see `read_blocks`."""
    return list(read_blocks(document.read_text(encoding="utf-8")))


def load_script(path: str) -> ModuleType:
    """Returns a script of this repository as a module. It can import modules beside it."""
    folder = str((ROOT / path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
