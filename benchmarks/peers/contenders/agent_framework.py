"""microsoft agent-framework: `apply_compaction` with a `TruncationStrategy` that counts tokens."""

from collections.abc import Sequence
from typing import Any

from agent_framework import (
    AgentSession,
    Content,
    InMemoryHistoryProvider,
    Message,
    TruncationStrategy,
    annotate_message_groups,
    apply_compaction,
    included_token_count,
)
from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain

from contenders.shared import complete, count_tokens


class Tokenizer:
    """The shared tokenizer with the interface of the library."""

    def count_tokens(self, text: str) -> int:
        """Returns the tokens of a message in JSON."""
        return count_tokens(text)


class AgentFramework:
    """A list of messages that is compacted before each request, as its chat clients do."""

    name = "agent-framework TruncationStrategy"
    distributions: Sequence[str] = ("agent-framework-core",)
    statement = "from agent_framework import TruncationStrategy"
    counts: Counts = "tokens"
    names_removed = True
    remark = "counts the JSON of a message, so a window holds half as much"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """The target is the same share of the history, in tokens as the library counts them.

        Messages keep their counts.
        """
        tokenizer = Tokenizer()
        counted = self._counted(history)
        messages = counted if warm else self.bare(history)
        share = target / sum(plain.tokens for plain in history)
        own_target = int(share * included_token_count(counted))
        strategy = TruncationStrategy(max_n=own_target, compact_to=own_target, tokenizer=tokenizer)

        def run() -> tuple[list[Message], int]:
            left = complete(apply_compaction(messages, strategy=strategy, tokenizer=tokenizer))
            return left, int(len(left) < len(messages))

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Window, trigger and target in tokens as the library counts them."""
        tokenizer = Tokenizer()
        strategy = TruncationStrategy(
            max_n=int(TRIGGER * WINDOW), compact_to=int(TARGET * WINDOW), tokenizer=tokenizer
        )
        return lambda: complete(run_session(turns, strategy, tokenizer))

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        messages, collections = returned
        return Outcome([_text(message) for message in messages], collections)

    def hold(self, history: Sequence[Plain]) -> AgentSession:
        """Returns a session whose history provider holds the history, counted."""
        session = AgentSession()
        session.state[InMemoryHistoryProvider.DEFAULT_SOURCE_ID] = {
            "messages": self._counted(history)
        }
        return session

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """Returns the messages alone."""
        return [_message(plain) for plain in history]

    def _counted(self, history: Sequence[Plain]) -> list[Message]:
        messages = self.bare(history)
        annotate_message_groups(messages, tokenizer=Tokenizer())
        return messages


async def run_session(
    turns: Sequence[Sequence[Plain]], strategy: TruncationStrategy, tokenizer: Tokenizer | None
) -> tuple[list[Message], int]:
    """Runs a session with either strategy. Excluded messages leave the list."""
    messages: list[Message] = []
    collections = 0
    for request, *rest in turns:
        messages.append(_message(request))
        left = await apply_compaction(messages, strategy=strategy, tokenizer=tokenizer)
        collections += len(left) < len(messages)
        messages = left
        messages.extend(_message(plain) for plain in rest)
    return messages, collections


def _message(plain: Plain) -> Message:
    if plain.role == "tool":
        result = Content.from_function_result(plain.call_id or "", result=plain.text)
        return Message("tool", [result])
    if plain.call is not None:
        call = Content.from_function_call(
            plain.call_id or "", plain.call, arguments=plain.arguments
        )
        return Message("assistant", [Content.from_text(plain.text), call])
    return Message(plain.role, [plain.text])


def _text(message: Message) -> str:
    content = message.contents[0]
    return str(content.result if content.type == "function_result" else content.text)


def make() -> Contender:
    """Returns the contender."""
    return AgentFramework()
