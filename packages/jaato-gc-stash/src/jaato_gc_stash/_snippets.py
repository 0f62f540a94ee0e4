"""The words around a match."""

import re
from collections.abc import Iterable, Sequence

_LENGTH = 200
"""Characters of a snippet."""
_READ = 400_000
"""Characters of a text that are looked at."""


def snippet(texts: Iterable[str], words: Sequence[str]) -> str:
    """The stretch of some texts that has most of some words, on one line."""
    # Longer words first: at the same place, the one that says more counts.
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    best, best_count = "", -1
    for text in texts:
        at, count = _best_place(text[:_READ], re.compile(pattern, re.IGNORECASE))
        if count > best_count:
            best, best_count = _cut(text, at), count
    return best


def _best_place(text: str, wanted: re.Pattern[str]) -> tuple[int, int]:
    """Where the stretch with most different words begins, and how many those are."""
    places = [(match.start(), match[0].casefold()) for match in wanted.finditer(text)]
    best = (places[0][0], 1) if places else (0, 0)
    first = 0
    inside: dict[str, int] = {}
    for at, word in places:
        inside[word] = inside.get(word, 0) + 1
        while places[first][0] < at - _LENGTH // 2:
            left = places[first][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        if len(inside) > best[1]:
            best = (places[first][0], len(inside))
    return best


def _cut(text: str, at: int) -> str:
    start = max(0, at - _LENGTH // 4)
    end = start + _LENGTH
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
