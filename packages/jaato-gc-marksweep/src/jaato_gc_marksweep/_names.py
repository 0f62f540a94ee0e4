"""The names that a text mentions: paths, symbols, ids."""

import re
from collections.abc import Iterator
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[\w./:@#-]{4,118}\w)")
_MARK: Final = re.compile(r"[0-9_/.]")
_HUMP: Final = re.compile(r"[a-z][A-Z]")
_LETTER: Final = re.compile(r"[A-Za-z]")


def names_in(text: str) -> list[str]:
    """The names in a text, once each, in their order."""
    return list(dict.fromkeys(_names(text)))


def _names(text: str) -> Iterator[str]:
    for word in _NAME.findall(text):
        if (_MARK.search(word) and _LETTER.search(word)) or _HUMP.search(word):
            yield word
