"""The text that an edit quotes in order to replace it, and the lines that show it."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

MIN_LINE = 8
"""Shorter lines, such as a closing brace, say nothing about where they come from."""

_OLD = {"oldstring", "oldstr", "oldtext", "oldcontent", "oldcode", "targetcontent"}
_OLD_BESIDE_NEW = {"old", "search", "find", "original"}
_NEW = {"new", "replace", "replacement", "replacewith", "updated"}
_NUMBERED = re.compile(r"^\s*\d+\s*(?:→|\t|\||:)\s?")
_ALPHANUMERIC = re.compile(r"[^\W_]")
_SEARCH_BLOCK = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(?::start_line:[^\n]*\n-+\n)?(.*?)\n={5,9}\s*$", re.M | re.S
)
_PATCH = re.compile(r"^(?:\*\*\* Update File: |@@ -\d)", re.M)
_NOT_IN_HUNK = ("---", "+++", "***", "@@")


def quoted_texts(arguments: Any) -> Iterator[str]:
    """Yields the texts that a call quotes from a file in order to change it.

    These are arguments such as ``old_string`` and ``oldText`` at any depth, the blocks to search
    for in a search-and-replace text, and the context and removed lines of a patch.
    """
    if isinstance(arguments, Mapping):
        keys = {key: re.sub(r"[^a-z]", "", str(key).lower()) for key in arguments}
        has_new = not _NEW.isdisjoint(keys.values())
        for key, value in arguments.items():
            is_old = keys[key] in _OLD or (has_new and keys[key] in _OLD_BESIDE_NEW)
            if is_old and isinstance(value, str):
                yield value
            else:
                yield from quoted_texts(value)
    elif isinstance(arguments, list):
        for each in arguments:
            yield from quoted_texts(each)
    elif isinstance(arguments, str):
        if "SEARCH" in arguments:
            yield from _SEARCH_BLOCK.findall(arguments)
        if _PATCH.search(arguments):
            yield "\n".join(_replaced_by_patch(arguments))


def _replaced_by_patch(patch: str) -> Iterator[str]:
    is_hunk = False
    for line in patch.splitlines():
        if line.startswith(_NOT_IN_HUNK):
            is_hunk = line.startswith(("*** Update File: ", "@@"))
        elif is_hunk and line[:1] in ("-", " "):
            yield line[1:]


def quoted_lines(text: str) -> frozenset[str]:
    """Returns the lines of a quoted text, normalized; those that are too short are left out."""
    return frozenset(filter(_is_telling, map(_normalized, text.splitlines())))


@lru_cache(maxsize=4096)  # the same recording is parsed for every strategy and window
def lines_in(text: str) -> frozenset[str]:
    """Returns the lines that a text shows, normalized: without line numbers and patch marks."""
    lines = text.splitlines()
    unmarked = (line[1:] for line in lines if line[:1] in ("+", "-"))
    normalized = {_normalized(line) for line in (*lines, *unmarked)}
    return frozenset(filter(_is_telling, normalized))


def _normalized(line: str) -> str:
    return " ".join(_NUMBERED.sub("", line).split())


def _is_telling(line: str) -> bool:
    return len(line) >= MIN_LINE and bool(_ALPHANUMERIC.search(line))
