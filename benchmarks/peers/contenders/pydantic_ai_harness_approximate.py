"""pydantic-ai-harness: the same without a tokenizer, as it is by default."""

from contender import Contender

from contenders.pydantic_ai_harness import PydanticAIHarness


class PydanticAIHarnessApproximate(PydanticAIHarness):
    """The same, but for what counts."""

    name = "pydantic-ai-harness SlidingWindowCompaction, approximate"
    does_less = "estimates tokens from characters; " + PydanticAIHarness.does_less
    tokenizer = None


def make() -> Contender:
    """The contender."""
    return PydanticAIHarnessApproximate()
