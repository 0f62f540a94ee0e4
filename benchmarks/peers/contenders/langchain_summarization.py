"""langchain's SummarizationMiddleware, with a model that answers at once."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from contender import TARGET, TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime

from contenders.langchain_messages import Messages, message_of
from contenders.shared import SUMMARY


class Summarizing(Messages):
    """The middleware, called before the model as an agent does."""

    name = "langchain SummarizationMiddleware"
    distributions = ("langchain", "langchain-core")
    statement = "from langchain.agents.middleware import SummarizationMiddleware"
    counts: Counts = "estimate"
    names_removed = False
    remark = "inserts a summary (of a stub)"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:
        """Calls it with a trigger that is always met. It keeps no counts: one case only."""
        if warm:
            return None
        messages = [message_of(plain) for plain in history if plain.role != "system"]
        middleware = _middleware(1, target)
        share = target / sum(plain.tokens for plain in history)
        allowed = int(share * middleware.token_counter(messages))
        return partial(_before_model, _middleware(1, allowed), messages)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """Calls it before each request."""

        def run_turns() -> tuple[list[BaseMessage], int]:
            middleware = _middleware(int(TRIGGER * WINDOW), int(TARGET * WINDOW))
            messages: list[BaseMessage] = []
            collections = 0
            for request, *rest in turns:
                messages.append(message_of(request))
                messages, collected = _before_model(middleware, messages)
                collections += collected
                messages += [message_of(plain) for plain in rest]
            return messages, collections

        return run_turns

    def outcome(self, returned: tuple[list[BaseMessage], int]) -> Outcome:
        """Returns the texts that are left, with the summary."""
        messages, collections = returned
        return Outcome([message.text for message in messages], collections)


def _middleware(trigger: int, keep: int) -> SummarizationMiddleware[Any, Any]:
    model = FakeListChatModel(responses=[SUMMARY])
    return SummarizationMiddleware(model, trigger=("tokens", trigger), keep=("tokens", keep))


def _before_model(
    middleware: SummarizationMiddleware[Any, Any], messages: list[BaseMessage]
) -> tuple[list[BaseMessage], int]:
    """Returns the messages for the model, and how many summaries were made."""
    update = middleware.before_model({"messages": messages}, Runtime())
    if update is None:
        return messages, 0
    _remove_all, *kept = update["messages"]
    return kept, 1


def make() -> Contender:
    """Returns the contender."""
    return Summarizing()
