"""semantic-kernel: `ChatHistoryTruncationReducer`."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistoryTruncationReducer,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)

from contenders.shared import complete, messages_in


class SemanticKernel:
    """A history that reduces itself to a number of messages."""

    name = "semantic-kernel ChatHistoryTruncationReducer"
    distributions: Sequence[str] = ("semantic-kernel",)
    statement = "from semantic_kernel.contents import ChatHistoryTruncationReducer"
    counts: Counts = "messages"
    names_removed = False
    remark = ""

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Nothing is counted: there is only one case."""
        if warm:
            return None
        reducer = _reducer(messages_in(target, history), 0)
        reducer.messages.extend(self.bare(history))

        def run() -> tuple[ChatHistoryTruncationReducer, int]:
            return reducer, int(complete(reducer.reduce()) is not None)

        return run

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """`reduce` before each request, as its documentation has it in a chat loop."""
        history = list(chain.from_iterable(turns))
        target = messages_in(TARGET * WINDOW, history)
        trigger = messages_in(TRIGGER * WINDOW, history)

        async def run() -> tuple[ChatHistoryTruncationReducer, int]:
            reducer = _reducer(target, trigger - target)
            collections = 0
            for request, *rest in turns:
                reducer.add_message(_message(request))
                if await reducer.reduce() is not None:
                    collections += 1
                for plain in rest:
                    reducer.add_message(_message(plain))
            return reducer, collections

        return lambda: complete(run())

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        reducer, collections = returned
        return Outcome([_text(message) for message in reducer.messages], collections)

    def hold(self, history: Sequence[Plain]) -> ChatHistoryTruncationReducer:
        """Returns a reducer with the history."""
        reducer = _reducer(len(history), 0)
        reducer.messages.extend(self.bare(history))
        return reducer

    def bare(self, history: Sequence[Plain]) -> list[ChatMessageContent]:
        """Returns the messages alone."""
        return [_message(plain) for plain in history]


def _reducer(target: int, threshold: int) -> ChatHistoryTruncationReducer:
    return ChatHistoryTruncationReducer(target_count=target, threshold_count=threshold)


def _message(plain: Plain) -> ChatMessageContent:
    if plain.role == "tool":
        result = FunctionResultContent(
            id=plain.call_id, function_name=plain.call, result=plain.text
        )
        return ChatMessageContent(role=AuthorRole.TOOL, items=[result])
    if plain.call is not None:
        call = FunctionCallContent(
            id=plain.call_id, function_name=plain.call, arguments=plain.arguments
        )
        return ChatMessageContent(
            role=AuthorRole.ASSISTANT, items=[TextContent(text=plain.text), call]
        )
    return ChatMessageContent(role=AuthorRole(plain.role), content=plain.text)


def _text(message: ChatMessageContent) -> str:
    item = message.items[0]
    return str(item.result if isinstance(item, FunctionResultContent) else item.text)


def make() -> Contender:
    """Returns the contender."""
    return SemanticKernel()
