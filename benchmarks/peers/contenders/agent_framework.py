"""microsoft agent-framework: `apply_compaction` with a `TruncationStrategy` that counts tokens."""

import json
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
from contender import TARGET, TRIGGER, WINDOW, Contender, Outcome, Run
from histories import Plain

from contenders.shared import complete, count_tokens


class Tokenizer:
    """The shared tokenizer, in the shape that the library wants."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a message, which the library writes as JSON for this."""
        return count_tokens(text)


class AgentFramework:
    """A list of messages that is compacted before each request, as its chat clients do."""

    name = "agent-framework TruncationStrategy"
    distributions: Sequence[str] = ("agent-framework-core",)
    module = "agent_framework"
    does_less = (
        "counts each message as JSON, so a window holds about half; also marks what it excludes"
    )

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """The target is the same share of the history, in tokens as the library counts them.

        Counts are kept on the messages, so that there is a warm case.
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

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run | None:
        """Window, trigger and target in tokens as the library counts them."""
        tokenizer = Tokenizer()
        strategy = TruncationStrategy(
            max_n=int(TRIGGER * WINDOW), compact_to=int(TARGET * WINDOW), tokenizer=tokenizer
        )
        return lambda: complete(run_session(turns, strategy, tokenizer))

    def outcome(self, returned: Any) -> Outcome:
        """The texts that are left."""
        messages, collections = returned
        return Outcome([_text(message) for message in messages], collections)

    def save(self, history: Sequence[Plain]) -> Run | None:
        """The session's own dictionary, as JSON."""
        session = self.hold(history)
        return lambda: json.dumps(session.to_dict())

    def restore(self, history: Sequence[Plain]) -> Run | None:
        """And back."""
        saved = json.dumps(self.hold(history).to_dict())
        return lambda: AgentSession.from_dict(json.loads(saved))

    def hold(self, history: Sequence[Plain]) -> AgentSession:
        """A session with the history where its own history provider keeps it, and counted."""
        session = AgentSession()
        session.state[InMemoryHistoryProvider.DEFAULT_SOURCE_ID] = {
            "messages": self._counted(history)
        }
        return session

    def bare(self, history: Sequence[Plain]) -> list[Message]:
        """The messages alone."""
        return [_message(plain) for plain in history]

    def _counted(self, history: Sequence[Plain]) -> list[Message]:
        messages = self.bare(history)
        annotate_message_groups(messages, tokenizer=Tokenizer())
        return messages


async def run_session(
    turns: Sequence[Sequence[Plain]], strategy: TruncationStrategy, tokenizer: Tokenizer | None
) -> tuple[list[Message], int]:
    """A session with either strategy. What is excluded is let go of: the list stays short."""
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
    """The contender."""
    return AgentFramework()
