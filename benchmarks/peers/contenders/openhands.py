"""openhands-sdk: `LLMSummarizingCondenser`, by tokens, with a stub of the summarizing model."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Before litellm is imported, which would ask the network for prices, and wait for an answer.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("OPENHANDS_SUPPRESS_BANNER", "1")
os.environ.setdefault("LOG_LEVEL", "WARNING")

from contender import TRIGGER, WINDOW, Contender, Counts, Outcome, Run
from histories import Plain
from openhands.sdk import LLM, Action, Message, Observation, TextContent
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import (
    ActionEvent,
    Condensation,
    LLMConvertibleEvent,
    MessageEvent,
    ObservationEvent,
    SystemPromptEvent,
)
from openhands.sdk.llm import MessageToolCall, content_to_str
from openhands.sdk.testing import TestLLM

from contenders.shared import SUMMARY

ANY_NUMBER = 10**9


class ReadFile(Action):  # type: ignore[misc]
    """The call in these histories."""

    path: str


class FileRead(Observation):  # type: ignore[misc]
    """The result of the call."""


class OpenHands:
    """A view of events, which the condenser checks before a request."""

    name = "openhands LLMSummarizingCondenser"
    distributions: Sequence[str] = ("openhands-sdk", "litellm")
    statement = "from openhands.sdk.context.condenser import LLMSummarizingCondenser"
    counts: Counts = "tokens"
    names_removed = True
    remark = "collects to half of the trigger; inserts a summary (of a stub)"

    def collect(self, history: Sequence[Plain], target: int, *, warm: bool) -> Run | None:  # noqa: ARG002
        """It keeps no counts: there is only one case."""
        if warm:
            return None
        view = self.hold(history)
        agent_llm = _agent_llm(ANY_NUMBER)
        full = agent_llm.get_token_count(LLMConvertibleEvent.events_to_messages(view.events))
        condenser = make_condenser(1, max_size=ANY_NUMBER, max_tokens=full - 1)
        return lambda: condense(condenser, view, agent_llm)

    def session(self, turns: Sequence[Sequence[Plain]]) -> Run:
        """The trigger is in tokens. Every check counts all of them."""
        condenser = make_condenser(
            len(turns), max_size=ANY_NUMBER, max_tokens=int(TRIGGER * WINDOW)
        )
        agent_llm = _agent_llm(WINDOW)
        return lambda: run_session(turns, condenser, agent_llm)

    def outcome(self, returned: Any) -> Outcome:
        """Returns the texts that are left."""
        view, collections = returned
        messages = (event.to_llm_message() for event in view.events)
        return Outcome(
            ["".join(content_to_str(message.content)) for message in messages], collections
        )

    def hold(self, history: Sequence[Plain]) -> View:
        """Returns a view with the history."""
        return View.from_events(self.bare(history))

    def bare(self, history: Sequence[Plain]) -> list[LLMConvertibleEvent]:
        """Returns the events alone."""
        return list(_events(history))


def make_condenser(
    summaries: int, *, max_size: int, max_tokens: int | None
) -> LLMSummarizingCondenser:
    """Returns a condenser whose model can write some summaries."""
    summary = Message(role="assistant", content=[TextContent(text=SUMMARY)])
    stub = TestLLM.from_messages([summary] * summaries)
    return LLMSummarizingCondenser(llm=stub, max_size=max_size, max_tokens=max_tokens)


def condense(
    condenser: LLMSummarizingCondenser, view: View, agent_llm: LLM | None
) -> tuple[View, int]:
    """Checks a view and condenses it if that is due."""
    condensed = condenser.condense(view, agent_llm=agent_llm)
    if not isinstance(condensed, Condensation):
        return view, 0
    view.append_event(condensed)
    return view, 1


def run_session(
    turns: Sequence[Sequence[Plain]], condenser: LLMSummarizingCondenser, agent_llm: LLM | None
) -> tuple[View, int]:
    """Runs a session by tokens or by events."""
    view = View()
    collections = 0
    for request, *rest in turns:
        for event in _events([request]):
            view.append_event(event)
        view, collected = condense(condenser, view, agent_llm)
        collections += collected
        for event in _events(rest):
            view.append_event(event)
    return view, collections


def _agent_llm(max_input_tokens: int) -> LLM:
    """Returns a model that only counts, with the shared tokenizer."""
    return LLM(model="gpt-4-turbo", max_input_tokens=max_input_tokens)


def _events(history: Iterable[Plain]) -> Iterator[LLMConvertibleEvent]:
    action_id = ""
    for plain in history:
        content = TextContent(text=plain.text)
        if plain.role == "system":
            yield SystemPromptEvent(system_prompt=content, tools=[])
        elif plain.role == "tool":
            yield ObservationEvent(
                observation=FileRead(content=[content]),
                action_id=action_id,
                tool_name=plain.call or "",
                tool_call_id=plain.call_id or "",
            )
        elif plain.call is not None:
            action = _action(plain, content)
            action_id = action.id
            yield action
        else:
            source = "user" if plain.role == "user" else "agent"
            yield MessageEvent(
                source=source, llm_message=Message(role=plain.role, content=[content])
            )


def _action(plain: Plain, thought: TextContent) -> ActionEvent:
    arguments = plain.arguments or {}
    call_id, name = plain.call_id or "", plain.call or ""
    return ActionEvent(
        thought=[thought],
        action=ReadFile(**arguments),
        tool_name=name,
        tool_call_id=call_id,
        tool_call=MessageToolCall(
            id=call_id, name=name, arguments=json.dumps(arguments), origin="completion"
        ),
        llm_response_id=f"response_{call_id}",
    )


def make() -> Contender:
    """Returns the contender."""
    return OpenHands()
