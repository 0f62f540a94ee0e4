"""langchain-core's trim_messages with the shared tokenizer."""

from contender import Contender

from contenders.langchain_messages import Trimming, exact_counter


def make() -> Contender:
    """Returns the contender."""
    return Trimming(
        "langchain-core trim_messages, exact",
        exact_counter,
        counts="tokens",
        remark="oldest first; a cache in this benchmark remembers counts",
        remembers=True,
    )
