"""What a collection costs and saves at a provider with a prompt cache."""

from dataclasses import dataclass

from jaato_gc import GCResult
from jaato_gc_lab._prices import Prices

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class CacheCost:
    """The cost of rewriting the prompt cache, and when a collection pays off.

    Args:
        model: Model whose prices apply.
        unpriced_model: The model that the recording names, if it has no known price.
        currency: Currency of the amounts.
        rewriting: Additional cost of the first request after the collection.
        saved_per_request: What every later request costs less.
        pays_after: Number of requests until the collection pays off; ``None`` if it never does.
    """

    model: str
    unpriced_model: str | None
    currency: str
    rewriting: float
    saved_per_request: float
    pays_after: int | None


def cache_cost(
    result: GCResult, prices: Prices, *, given: str | None, recorded: str | None
) -> CacheCost:
    """Returns what a collection costs and saves.

    Args:
        result: The collection.
        prices: The price table.
        given: The model that the user chose, if any.
        recorded: The model that the recording names, if any.

    Raises:
        GCConfigError: The table has no price for the given model.
    """
    name = prices.choose(given, recorded)
    price = prices.of(name)
    write = price.input if price.cache_write is None else price.cache_write
    rewritten = result.cache.rewritten_tokens if result.cache else 0
    rewriting = rewritten * max(write - price.cache_read, 0) / _MILLION
    saved = result.tokens_freed * price.cache_read / _MILLION
    return CacheCost(
        model=name,
        unpriced_model=prices.unpriced(given, recorded),
        currency=price.currency,
        rewriting=rewriting,
        saved_per_request=saved,
        pays_after=int(rewriting / saved) + 1 if saved else None,
    )
