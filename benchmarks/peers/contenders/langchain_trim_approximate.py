"""langchain-core's trim_messages with its own approximate counter."""

from contender import Contender
from langchain_core.messages.utils import count_tokens_approximately

from contenders.langchain_messages import Trimming


def make() -> Contender:
    """Returns the contender."""
    return Trimming(
        "langchain-core trim_messages, approximate",
        lambda: count_tokens_approximately,
        counts="estimate",
        remark="oldest first",
        remembers=False,
    )
