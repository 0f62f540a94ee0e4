"""Splits texts and queries into words, in the same way for every database.

The databases' own tokenizers differ, and none of them handles code well. Here, a path gives its
folders and names, an identifier gives itself and its pieces, and scripts without spaces give pairs
of characters. The databases index the words as they are.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator

MAX_WORD_LENGTH = 64
"""Longest word, in characters. Longer ones are data, and are cut."""

_MAX_INDEXED = 400_000
"""Characters of a text that are indexed, half of them from its start and half from its end."""
_MAX_REPETITIONS = 16
"""The number of times that the same word of a text is indexed. More would not help the ranking."""
_MAX_BYTES = 400_000
"""Total size of the words of a text. PostgreSQL can index about twice as much."""
_MAX_QUERY_WORDS = 40
"""Words of a query that are used."""

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words: Thai to Myanmar, Khmer, kana, and Chinese characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# HTTPServer2_old gives HTTP, Server2 and old; the hash of a commit is one piece.
_PIECE = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


def words_to_index(text: str) -> list[str]:
    """Returns the words of a text in order, with repetitions, within the limits of an index."""
    if len(text) > _MAX_INDEXED:
        text = f"{text[: _MAX_INDEXED // 2]}\n{text[-_MAX_INDEXED // 2 :]}"
    counts: dict[str, int] = {}
    words = []
    size = 0
    for word in _words(text):
        count = counts[word] = counts.get(word, 0) + 1
        if count > _MAX_REPETITIONS:
            continue
        size += len(word.encode()) + 8  # room for its positions
        if size > _MAX_BYTES:
            break
        words.append(word)
    return words


def words_to_find(query: str) -> list[str]:
    """Returns the distinct words of a query, possibly none."""
    words: dict[str, None] = {}
    for word in _words(query[:_MAX_INDEXED]):
        words.setdefault(word)
        if len(words) == _MAX_QUERY_WORDS:
            break
    return list(words)


def is_prefix(word: str) -> bool:
    """Returns whether a word of a query also matches longer words that start with it.

    Very short words don't, because they would match almost everything.
    """
    # Two characters suffice outside ASCII: many Korean words have two syllables, plus suffixes.
    return len(word) > (2 if word.isascii() else 1) or bool(_IS_UNSPACED.match(word))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        yield from _words_in(match[0])


@functools.lru_cache(maxsize=10_000)
def _words_in(token: str) -> tuple[str, ...]:
    words: list[str] = []
    for run in _RUN.findall(token):
        if _IS_UNSPACED.match(run):
            # Pairs, and the last character alone, so that every character starts a word.
            words += (run[at : at + 2] for at in range(len(run)))
            continue
        pieces = _PIECE.findall(run) if run.isascii() else run.split("_")
        words.append(run.strip("_"))
        if len(pieces) > 1 and len(run) <= MAX_WORD_LENGTH:
            words += pieces
    return tuple(word.casefold()[:MAX_WORD_LENGTH] for word in words if word)
