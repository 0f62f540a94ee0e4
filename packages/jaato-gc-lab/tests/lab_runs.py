"""Small recordings for tests, and a replay that records its requests."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from jaato_gc import (
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
)
from jaato_gc.plugin import GCPlugin
from jaato_gc_formats import Conversation
from jaato_gc_lab import ReplayReport, replay

COUNTER = EstimateCounter()
REGISTRY = PluginRegistry()
STRATEGIES = sorted(REGISTRY.strategies())


def user(text: str) -> Message:
    return Message.from_text(Role.USER, text)


def model(text: str) -> Message:
    return Message.from_text(Role.MODEL, text)


def exchange(call_id: str, tool: str, result: str, **arguments: Any) -> list[Message]:
    """Returns a call and its result."""
    return [
        Message(Role.MODEL, [Part(function_call=FunctionCall(call_id, tool, arguments))]),
        Message(Role.TOOL, [Part(function_response=ToolResult(call_id, tool, result))]),
    ]


def filler(words: int) -> str:
    """Returns a text without names."""
    return "all is well on board " * (words // 5)


def turns(count: int, words: int = 100) -> list[Message]:
    """Returns a run of plain turns."""
    return [
        message
        for number in range(count)
        for message in (user(f"and {filler(words)}"), model(f"yes {filler(words)}"))
    ]


class WatchedSession(GCSession):
    """Records the messages of every request."""

    sent: ClassVar[list[list[Message]]] = []

    def before_send(self) -> list[Message]:
        try:
            return super().before_send()
        finally:  # includes requests that do not fit
            self.sent.append([*self.history])


def watched_replay(
    transcript: Conversation | Sequence[Message],
    strategy: str | GCPlugin,
    limit: int,
    **arguments: Any,
) -> tuple[ReplayReport, list[list[Message]]]:
    """Returns a report and the messages of every request."""
    WatchedSession.sent.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaato_gc_lab._replay.GCSession", WatchedSession)
        config = GCConfig(preserve_recent_turns=1, preserve_recent_groups=0)
        arguments.setdefault("config", config)
        report = replay(transcript, strategy, context_limit=limit, registry=REGISTRY, **arguments)
    return report, list(WatchedSession.sent)
