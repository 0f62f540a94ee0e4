"""Extracts the text around a match, for search results."""

import re
from collections.abc import Iterable, Sequence

_LENGTH = 200
"""Length of a snippet, in characters."""
_MAX_SEARCHED = 400_000
"""Characters of a text that are searched for matches."""


def snippet(texts: Iterable[str], words: Sequence[str]) -> str:
    """Returns the passage of the texts with the most of the words, on one line."""
    # Longer words first, because the first alternative of a pattern wins.
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    best, best_count = "", -1
    for text in texts:
        start, count = _best_window(text[:_MAX_SEARCHED], re.compile(pattern, re.IGNORECASE))
        if count > best_count:
            best, best_count = _excerpt(text, start), count
    return best


def _best_window(text: str, pattern: re.Pattern[str]) -> tuple[int, int]:
    """Returns the start of the window with the most distinct words, and their number."""
    matches = [(match.start(), match[0].casefold()) for match in pattern.finditer(text)]
    best = (matches[0][0], 1) if matches else (0, 0)
    first = 0
    counts: dict[str, int] = {}
    for at, word in matches:
        counts[word] = counts.get(word, 0) + 1
        while matches[first][0] < at - _LENGTH // 2:
            left_word = matches[first][1]
            counts[left_word] -= 1
            if not counts[left_word]:
                del counts[left_word]
            first += 1
        if len(counts) > best[1]:
            best = (matches[first][0], len(counts))
    return best


def _excerpt(text: str, at: int) -> str:
    start = max(0, at - _LENGTH // 4)
    end = start + _LENGTH
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
