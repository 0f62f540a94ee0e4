"""What a run costs: prices of models from a dated table, with prompt caches read and written."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt

from jaato_gc import GCConfigError, Settings
from jaato_gc_lab._reports import ReplayReport, Request

LOOKUP_TOKENS = 100
"""What a model writes to call a tool that looks something up again."""

_MILLION = 1_000_000
_VERSION = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest|preview(?:-[\d-]+)?)$")


class Price(Settings):
    """What some models cost, per million tokens."""

    model_config = ConfigDict(strict=False)

    models: list[str] = Field(min_length=1)
    """Their names, without a date."""
    input: NonNegativeFloat
    """Tokens that are read and kept in no cache."""
    output: NonNegativeFloat
    """Tokens that are written."""
    cache_read: NonNegativeFloat
    """Tokens that are found in the cache."""
    cache_write: NonNegativeFloat | None = None
    """Tokens that are read and put into the cache; ``None``: as other input."""
    currency: str = "USD"
    min_cached_tokens: NonNegativeInt = 0
    """Below this nothing is cached."""
    date: date
    """When the price was looked up."""
    source: str = ""
    """Where."""
    note: str = ""

    def cost(self, requests: Iterable[Request]) -> float:
        """Money for requests and their answers.

        What the provider has seen as the beginning of the request before is read from its cache,
        all else is written to it. So a collection that changes an early message is charged for what
        the cache has to read anew. Nothing is assumed to have expired.
        """
        return sum(map(self._cost_of, requests))

    def lookup_cost(
        self, requests: Sequence[Request], lacking: Collection[int], reread_tokens: int
    ) -> float:
        """Money for looking up again what was lost, at least.

        For every request that lacked something, one more of the same size is sent, all of which is
        cached by then, and a short call is answered. What is read again is paid for as new.

        Args:
            requests: All requests.
            lacking: Positions of those that lacked something.
            reread_tokens: Tokens of what has to be read again.
        """
        again = [
            Request(each.turn, each.tokens, {}, each.tokens, LOOKUP_TOKENS)
            for position, each in enumerate(requests)
            if position in lacking
        ]
        return self.cost(again) + reread_tokens * self._write / _MILLION

    @property
    def _write(self) -> float:
        return self.input if self.cache_write is None else self.cache_write

    def _cost_of(self, request: Request) -> float:
        least = self.min_cached_tokens
        cached = request.cached_tokens if request.cached_tokens >= least else 0
        fresh = self._write if request.tokens >= least else self.input
        return (
            cached * self.cache_read
            + (request.tokens - cached) * fresh
            + request.output_tokens * self.output
        ) / _MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of all models that are known.

    Args:
        by_model: Prices by name of the model.
        default: The model that counts where none is named.
    """

    by_model: Mapping[str, Price]
    default: str

    def of(self, model: str | None = None) -> Price:
        """The price of a model.

        Args:
            model: Its name, with or without a provider before and a date behind it; ``None``: the
                default.

        Raises:
            GCConfigError: Its price is not known.
        """
        return self.by_model[self.known(model or self.default)]

    def known(self, model: str) -> str:
        """The name under which the price of a model is known.

        Raises:
            GCConfigError: It is not.
        """
        bare = model.lower().rpartition("/")[2]
        for name in (bare, _VERSION.sub("", bare)):
            if name in self.by_model:
                return name
        raise GCConfigError(
            f"the price of model {model!r} is not known: known are {', '.join(self.by_model)}; "
            "name one of these, or give a price table of your own that has it"
        )


def load_prices(path: str | Path | None = None) -> Prices:
    """The price table that comes with this package, with another one laid over it.

    Args:
        path: A TOML file of the same shape: ``[[prices]]`` entries, and ``default``. Its entries
            stand in the place of ours, model by model.

    Raises:
        GCConfigError: The file can't be read, or does not have that shape.
    """
    own = resources.files("jaato_gc_lab").joinpath("prices.toml").read_text(encoding="utf-8")
    prices = _parse(own, "prices.toml")
    if path is None:
        return prices
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GCConfigError(f"{path}: the price table can't be read: {error}") from None
    given = _parse(text, str(path), prices.default)
    merged = Prices({**prices.by_model, **given.by_model}, given.default)
    merged.of()
    return merged


def saving(report: ReplayReport, baseline: ReplayReport) -> float:
    """The share of the money that a strategy saves, net of what it costs to write the cache anew.

    Args:
        report: The run under that strategy.
        baseline: The same run without any collection. Negative savings are losses.
    """
    return 1 - report.cost / baseline.cost if baseline.cost else 0.0


def _parse(text: str, place: str, default: str = "") -> Prices:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GCConfigError(f"{place}: this is no TOML: {error}") from None
    if unknown := table.keys() - {"default", "prices"}:
        raise GCConfigError(f"{place}: unknown key {min(unknown)!r}: known are default, prices")
    return Prices(dict(_entries(table, place)), table.get("default", default))


def _entries(table: Mapping[str, Any], place: str) -> Iterator[tuple[str, Price]]:
    for number, entry in enumerate(table.get("prices", ()), 1):
        try:
            price = Price(**entry)
        except GCConfigError as error:
            raise GCConfigError(f"{place}: prices, entry {number}: {error}") from None
        for model in price.models:
            yield model.lower(), price
