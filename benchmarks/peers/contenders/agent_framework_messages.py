"""microsoft agent-framework without a tokenizer: by groups of messages, or by messages."""

from collections.abc import Sequence
from itertools import chain

from agent_framework import (
    Message,
    SlidingWindowStrategy,
    TruncationStrategy,
    apply_compaction,
)
from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Run
from histories import Plain

from contenders.agent_framework import AgentFramework, run_session
from contenders.shared import complete, messages_in


class AgentFrameworkMessages(AgentFramework):
    """The same without a tokenizer."""

    name = "agent-framework by messages"
    counts: Counts = "messages"
    remark = ""

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Uses `SlidingWindowStrategy`, the fastest. Nothing is counted: there is only one case.

        It keeps groups: a call and its result are one, every other message is one by itself.
        """
        if warm:
            return None
        messages = self.bare(history)
        share = target / sum(plain.tokens for plain in history)
        groups = sum(plain.role not in ("system", "tool") for plain in history)
        strategy = SlidingWindowStrategy(keep_last_groups=max(1, round(share * groups)))

        def run() -> tuple[list[Message], int]:
            left = complete(apply_compaction(messages, strategy=strategy))
            return left, int(len(left) < len(messages))

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Uses `TruncationStrategy`, which has a trigger and a target."""
        history = list(chain.from_iterable(turns))
        strategy = TruncationStrategy(
            max_n=messages_in(TRIGGER * WINDOW, history),
            compact_to=messages_in(TARGET * WINDOW, history),
        )
        return lambda: complete(run_session(turns, strategy, None))


def make() -> Contender:
    """Returns the contender."""
    return AgentFrameworkMessages()
