"""Texts as words, for indexing and for asking: the same words on every database.

Databases cut text into words each in their own way, and none of them well for code: here a path
gives its folders, an identifier itself and its pieces, and scripts without spaces give pairs of
characters. The databases only see words that need no further cutting.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator

LONGEST_WORD = 64
"""Characters that are looked at in a word; what is longer is data, and its beginning is enough."""

_READ = 400_000
"""Characters of a text that are indexed: half of them from its beginning, half from its end."""
_OFTEN = 16
"""How often a word is counted in a text: more says no more about what the text is about."""
_BYTES = 400_000
"""Size of all words of a text; PostgreSQL can index no more than twice that."""
_ASKED = 40
"""Words of a query that are looked at."""

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words: Thai to Myanmar, Khmer, kana, and Chinese characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# HTTPServer2_old is HTTP, Server2 and old; a commit's hash is one piece.
_PIECE = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


def words_to_index(text: str) -> list[str]:
    """The words of a text as it is indexed, in order, the same word several times."""
    if len(text) > _READ:
        text = f"{text[: _READ // 2]}\n{text[-_READ // 2 :]}"
    counts: dict[str, int] = {}
    words = []
    size = 0
    for word in _words(text):
        count = counts[word] = counts.get(word, 0) + 1
        if count > _OFTEN:
            continue
        size += len(word.encode()) + 8  # a position or two
        if size > _BYTES:
            break
        words.append(word)
    return words


def words_to_find(query: str) -> list[str]:
    """The different words of a query. There may be none."""
    words: dict[str, None] = {}
    for word in _words(query[:_READ]):
        words.setdefault(word)
        if len(words) == _ASKED:
            break
    return list(words)


def is_prefix(word: str) -> bool:
    """Whether to find longer words, too, that begin with a word: not if almost all would."""
    # Two syllables of Hangul are a word as often as not, to which others are attached.
    return len(word) > (2 if word.isascii() else 1) or bool(_IS_UNSPACED.match(word))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        yield from _words_in(match[0])


@functools.lru_cache(maxsize=10_000)
def _words_in(token: str) -> tuple[str, ...]:
    words: list[str] = []
    for run in _RUN.findall(token):
        if _IS_UNSPACED.match(run):
            # Pairs, and the last one alone: so every character begins a word somewhere.
            words += (run[at : at + 2] for at in range(len(run)))
            continue
        pieces = _PIECE.findall(run) if run.isascii() else run.split("_")
        words.append(run.strip("_"))
        if len(pieces) > 1 and len(run) <= LONGEST_WORD:
            words += pieces
    return tuple(word.casefold()[:LONGEST_WORD] for word in words if word)
