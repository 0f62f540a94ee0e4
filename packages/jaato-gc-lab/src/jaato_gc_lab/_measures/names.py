"""Names in a text, and their places in it."""

import re
from collections.abc import Iterator, Set
from functools import lru_cache

NEIGHBOURS = 24
"""Characters on each side of a name, on its line, that identify a place."""

_WORD = re.compile(r"[A-Za-z0-9_./#@:-]{4,120}")
_AROUND = "./:#-"
_MARK = re.compile(r"[0-9_/.]")
_LETTER = re.compile(r"[A-Za-z]")
_CAMEL_CASE = re.compile(r"[a-z][A-Z]")
_DIGIT = re.compile(r"[0-9]")
_MIN_LENGTH = 6
_MIN_DIGITS = 4

Place = tuple[str, str]
"""A name, and the name with its neighbours."""


@lru_cache(maxsize=8192)  # the same recording is parsed for every strategy and window
def names_in(text: str) -> frozenset[str]:
    """Returns the names in a text: paths, identifiers and numbers.

    An identifier has six characters or more and contains a digit, an underscore, a slash, a dot or
    camel case. A number, a date or a time has four digits or more.
    """
    words = {word.strip(_AROUND) for word in _WORD.findall(text)}
    return frozenset(filter(_is_name, words))


def _is_name(word: str) -> bool:
    if not _LETTER.search(word):
        return len(_DIGIT.findall(word)) >= _MIN_DIGITS
    return len(word) >= _MIN_LENGTH and bool(_MARK.search(word) or _CAMEL_CASE.search(word))


def places_in(text: str, names: Set[str]) -> Iterator[Place]:
    """Yields the places of some names in a text, with whitespace folded."""
    if names.isdisjoint(names_in(text)):
        return
    for line in text.splitlines():
        for match in _WORD.finditer(line):
            name = match.group().strip(_AROUND)
            if name in names:
                start = max(0, match.start() - NEIGHBOURS)
                yield name, " ".join(line[start : match.end() + NEIGHBOURS].split())
