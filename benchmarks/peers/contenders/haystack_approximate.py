"""haystack: the same with the counter that it has by default."""

from contender import Contender, Counts
from haystack.token_counters import ApproximateTokenCounter, TokenCounter

from contenders.haystack import Haystack


class HaystackApproximate(Haystack):
    """The same with another counter."""

    name = "haystack SlidingWindowCompactor, approximate"
    counts: Counts = "estimate"

    def make_counter(self) -> TokenCounter:
        """Returns a counter with four characters per token."""
        return ApproximateTokenCounter()


def make() -> Contender:
    """Returns the contender."""
    return HaystackApproximate()
