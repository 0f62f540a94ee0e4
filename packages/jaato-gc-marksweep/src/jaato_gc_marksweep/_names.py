"""Finds names in a text: paths, symbols and ids."""

import re
from collections.abc import Iterator
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[\w./:@#-]{4,118}\w)")
_DIGIT_OR_SEPARATOR: Final = re.compile(r"[0-9_/.]")
_CAMEL_CASE: Final = re.compile(r"[a-z][A-Z]")
_LETTER: Final = re.compile(r"[A-Za-z]")


def names_in(text: str) -> list[str]:
    """Returns the distinct names in a text, in order of first occurrence."""
    return list(dict.fromkeys(_names(text)))


def _names(text: str) -> Iterator[str]:
    for word in _NAME.findall(text):
        if (_DIGIT_OR_SEPARATOR.search(word) and _LETTER.search(word)) or _CAMEL_CASE.search(word):
            yield word
