"""Prices of models, and the cost of a run including prompt cache reads and writes."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from jaato_gc import GCConfigError
from jaato_gc.plugin import Settings
from jaato_gc_lab._files import read_whole
from jaato_gc_lab._reports import ReplayedRequest

LOOKUP_TOKENS = 100
"""Output tokens of one tool call that repeats a lookup."""

_MILLION = 1_000_000
_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_BEDROCK = re.compile(r"(?:[a-z-]+\.)+(.+?)(?:-v\d+(?::\d+)?)?")
_VERSION = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|preview(?:-[\d-]+)?)$")


class Price(Settings):
    """The price of one or more models, per million tokens."""

    model_config = ConfigDict(strict=False)

    models: list[str] = Field(min_length=1)
    """Names of the models, without a date."""
    input: NonNegativeFloat
    """Price of input tokens that are not cached."""
    output: NonNegativeFloat
    """Price of output tokens."""
    cache_read: NonNegativeFloat
    """Price of input tokens that are read from the cache."""
    cache_write: NonNegativeFloat | None = None
    """Price of input tokens that are written to the cache; ``None`` means the price of input."""
    currency: str = "USD"
    min_cached_tokens: NonNegativeInt = 0
    """Minimum length of a cached prefix, in tokens."""
    cache_seconds: PositiveFloat = 300
    """Lifetime of a cache entry since its last use, in seconds."""
    date: date
    """The day on which the price was looked up."""
    source: str = ""
    """URL of the page that lists the price."""
    note: str = ""

    def cost(self, requests: Iterable[ReplayedRequest]) -> float:
        """Returns the cost of requests and their answers.

        The prefix that a request shares with the previous one is read from the cache; the rest is
        written to it. A collection that changes an early message therefore pays for rewriting
        everything after that message. A request that comes later than ``cache_seconds`` after the
        previous one finds nothing in the cache. Without recorded times, entries never expire.
        """
        return sum(map(self._cost_of, requests))

    def lookup_cost(
        self, requests: Sequence[ReplayedRequest], lacking: Collection[int], reread_tokens: int
    ) -> float:
        """Returns the minimum cost of looking up removed content again.

        Each request that lacked something causes one more request of the same size, fully cached,
        with a short tool call as its answer. Content that is read again is priced as new input.

        Args:
            requests: All requests.
            lacking: Positions of the requests that lacked something.
            reread_tokens: Tokens of the content that is read again.
        """
        lookups = [
            ReplayedRequest(each.turn, each.tokens, {}, each.tokens, LOOKUP_TOKENS)
            for position, each in enumerate(requests)
            if position in lacking
        ]
        return self.cost(lookups) + reread_tokens * self._write / _MILLION

    def tokens_read_from_cache(self, request: ReplayedRequest) -> int:
        """Returns the tokens of a request that its prompt cache still has."""
        is_cold = (request.idle_seconds or 0) > self.cache_seconds
        is_short = request.cached_tokens < self.min_cached_tokens
        return 0 if is_cold or is_short else request.cached_tokens

    @property
    def _write(self) -> float:
        return self.input if self.cache_write is None else self.cache_write

    def _cost_of(self, request: ReplayedRequest) -> float:
        cached = self.tokens_read_from_cache(request)
        fresh = self._write if request.tokens >= self.min_cached_tokens else self.input
        return (
            cached * self.cache_read
            + (request.tokens - cached) * fresh
            + request.output_tokens * self.output
        ) / _MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """A price table.

    Args:
        by_model: Prices by model name.
        default: The model to use if none is given.
    """

    by_model: Mapping[str, Price]
    default: str

    def of(self, model: str | None = None) -> Price:
        """Returns the price of a model.

        Args:
            model: Name of the model, as any provider spells it; ``None`` for the default model.

        Raises:
            GCConfigError: The table has no price for the model.
        """
        return self.by_model[self.known(model or self.default)]

    def choose(self, given: str | None, recorded: str | None) -> str:
        """Returns the name of the model whose price applies to a recorded run.

        Args:
            given: The model that the user chose, if any. It takes precedence.
            recorded: The model that the run names, if any. Without a known price for it, the
                default model applies.

        Raises:
            GCConfigError: The table has no price for the given model.
        """
        if given:
            return self.known(given)
        return self.find(recorded or self.default) or self.known(self.default)

    def unpriced(self, given: str | None, recorded: str | None) -> str | None:
        """Returns the model that a run names, if `choose` replaces it by the default."""
        return None if given or not recorded or self.find(recorded) else recorded

    def only(self, name: str) -> "Prices":
        """Returns a table with the price of one of its models, which is the default."""
        return Prices({name: self.by_model[name]}, name)

    def find(self, model: str) -> str | None:
        """Returns the name of a model in the table, or ``None`` if it has no price.

        Args:
            model: Name of the model, as any provider spells it: with or without a prefix and a
                date, with dots or hyphens in its version.
        """
        with_hyphens = {_DOT.sub("-", name): name for name in self.by_model}
        for spelling in _spellings(model):
            if spelling in self.by_model:
                return spelling
            if name := with_hyphens.get(_DOT.sub("-", spelling)):
                return name
        return None

    def known(self, model: str) -> str:
        """Returns the name of a model in the table.

        Raises:
            GCConfigError: The table has no price for the model.
        """
        if name := self.find(model):
            return name
        raise GCConfigError(
            f"no price for model {model!r}: expected one of {', '.join(self.by_model)}; choose one "
            "of these or add the model to your own price table"
        )


def _spellings(model: str) -> Iterator[str]:
    """Yields the names that a table may have for a model, the most specific first.

    Gateways put a provider before the name (``openai/gpt-5``). Amazon Bedrock puts a region and a
    provider before it, and a revision after it (``us.anthropic.claude-opus-4-6-v1:0``).
    """
    bare = model.lower().rpartition("/")[2]
    hosted = _BEDROCK.fullmatch(bare)
    for name in (bare, hosted[1]) if hosted else (bare,):
        yield name
        yield _VERSION.sub("", name)


def refuse_several_currencies(currencies: Iterable[str]) -> None:
    """Raises an error for costs that can't be added up.

    Raises:
        GCConfigError: There are several currencies.
    """
    different = sorted(set(currencies))
    if len(different) > 1:
        raise GCConfigError(
            f"the models of the runs have prices in {' and '.join(different)}: choose one model "
            "for all runs with --model"
        )


def load_prices(path: str | Path | None = None) -> Prices:
    """Loads the bundled price table and merges a custom one into it.

    Args:
        path: A TOML file with ``[[prices]]`` entries and ``default``. Its entries override the
            bundled ones, model by model.

    Raises:
        GCConfigError: The file can't be read or is invalid.
    """
    bundled = resources.files("jaato_gc_lab").joinpath("prices.toml").read_text(encoding="utf-8")
    prices = _parse(bundled, "prices.toml")
    if path is None:
        return prices
    try:
        text = read_whole(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise GCConfigError(f"{path}: can't read the price table: {error}") from None
    custom = _parse(text, str(path), prices.default)
    merged = Prices({**prices.by_model, **custom.by_model}, custom.default)
    merged.of()  # raises if the default model has no price
    return merged


def _parse(text: str, place: str, default: str = "") -> Prices:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GCConfigError(f"{place}: invalid TOML: {error}") from None
    if unknown := table.keys() - {"default", "prices"}:
        raise GCConfigError(f"{place}: unknown key {min(unknown)!r}, expected default or prices")
    return Prices(dict(_entries(table, place)), table.get("default", default))


def _entries(table: Mapping[str, Any], place: str) -> Iterator[tuple[str, Price]]:
    for number, entry in enumerate(table.get("prices", ()), 1):
        try:
            price = Price(**entry)
        except GCConfigError as error:
            raise GCConfigError(f"{place}: prices, entry {number}: {error}") from None
        for model in price.models:
            yield model.lower(), price
