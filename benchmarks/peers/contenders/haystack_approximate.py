"""haystack: the same with the counter that it has by default."""

from contender import Contender
from haystack.token_counters import ApproximateTokenCounter, TokenCounter

from contenders.haystack import Haystack


class HaystackApproximate(Haystack):
    """The same, but for what counts."""

    name = "haystack SlidingWindowCompactor, approximate"
    does_less = "estimates tokens from characters; " + Haystack.does_less

    def make_counter(self) -> TokenCounter:
        """Four characters a token."""
        return ApproximateTokenCounter()


def make() -> Contender:
    """The contender."""
    return HaystackApproximate()
