"""haystack: `CompactionHook` with a `SlidingWindowCompactor`."""

from collections.abc import Sequence
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from haystack.components.agents.state import State
from haystack.components.agents.state.state_utils import replace_values
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks.compaction import CompactionHook, SlidingWindowCompactor
from haystack.token_counters import TiktokenCounter, TokenCounter
from histories import Plain

from contenders.shared import ENCODING, Provider


class Haystack:
    """The messages in the state of an agent, which the hook checks before a request."""

    name = "haystack SlidingWindowCompactor"
    distributions: Sequence[str] = ("haystack-ai", "tiktoken")
    statement = "from haystack.hooks.compaction import SlidingWindowCompactor"
    counts: Counts = "tokens"
    names_removed = False
    remark = "leaves a note with the number of removed messages; uses the provider's count"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """The target is the same share of the history, in tokens as the library counts them.

        It keeps no counts: there is only one case.
        """
        if warm:
            return None
        messages = self.bare(history)
        compactor, counter = SlidingWindowCompactor(), self.make_counter()
        share = target / sum(plain.tokens for plain in history)
        own_target = int(share * counter.count(messages))

        def run() -> tuple[list[ChatMessage], int]:
            left = compactor.compact(messages, own_target, counter)
            return (messages, 0) if left is None else (left, 1)

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """One long run of an agent, whose state has the provider's count after each answer."""
        provider = Provider(turns)
        counter = self.make_counter()

        def run() -> tuple[list[ChatMessage], int]:
            hook = CompactionHook(
                SlidingWindowCompactor(),
                context_window=WINDOW,
                compact_at=TRIGGER,
                compact_to=TARGET,
                token_counter=counter,
            )
            state = _state([])
            collections = seen = 0
            for turn in turns:
                request, *rest = turn
                state.set("messages", [_message(request)])
                before = len(state.data["messages"])
                hook.run(state)
                collections += len(state.data["messages"]) < before
                for plain in rest:
                    state.set("messages", [_message(plain)])
                seen += len(turn)
                notes = min(collections, 1)
                held = len(state.data["messages"]) - notes
                state.set("context_tokens", provider.tokens(seen, held))
            return state.data["messages"], collections

        return run

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        messages, collections = returned
        return Outcome([_text(message) for message in messages], collections)

    def hold(self, history: Sequence[Plain]) -> State:
        """Returns the state of an agent with the history."""
        return _state(self.bare(history))

    def make_counter(self) -> TokenCounter:
        """Returns the counter for messages that the provider has not counted."""
        counter = TiktokenCounter(encoding=ENCODING)
        counter.warm_up()
        return counter

    def bare(self, history: Sequence[Plain]) -> list[ChatMessage]:
        """Returns the messages alone."""
        return [_message(plain) for plain in history]


def _state(messages: list[ChatMessage]) -> State:
    schema = {"context_tokens": {"type": int, "handler": replace_values}}
    return State(schema, {"messages": messages, "context_tokens": 0})


def _message(plain: Plain) -> ChatMessage:
    if plain.role == "system":
        return ChatMessage.from_system(plain.text)
    if plain.role == "user":
        return ChatMessage.from_user(plain.text)
    if plain.call is None:
        return ChatMessage.from_assistant(plain.text)
    call = ToolCall(tool_name=plain.call, arguments=plain.arguments or {}, id=plain.call_id)
    if plain.role == "assistant":
        return ChatMessage.from_assistant(plain.text, tool_calls=[call])
    return ChatMessage.from_tool(plain.text, origin=call)


def _text(message: ChatMessage) -> str:
    result = message.tool_call_result
    return str(message.text if result is None else result.result)


def make() -> Contender:
    """Returns the contender."""
    return Haystack()
