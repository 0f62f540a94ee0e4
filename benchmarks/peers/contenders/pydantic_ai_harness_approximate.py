"""pydantic-ai-harness: the same without a tokenizer, as it is by default."""

from contender import Contender, Counts

from contenders.pydantic_ai_harness import PydanticAIHarness


class PydanticAIHarnessApproximate(PydanticAIHarness):
    """The same without a tokenizer."""

    name = "pydantic-ai-harness SlidingWindowCompaction, approximate"
    counts: Counts = "estimate"
    tokenizer = None


def make() -> Contender:
    """Returns the contender."""
    return PydanticAIHarnessApproximate()
