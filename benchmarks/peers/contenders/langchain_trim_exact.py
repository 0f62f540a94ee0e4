"""langchain-core's trim_messages with the shared tokenizer."""

from contender import Contender

from contenders.langchain_messages import Trimming, exact_counter


def make() -> Contender:
    """The contender."""
    return Trimming(
        "langchain-core trim_messages, exact",
        exact_counter,
        "oldest first, no policies; no removal list; counts are remembered by a cache of ours",
        remembers=True,
    )
