"""Helpers for tests with sessions: a session, turns to fill it, sample strategies, a check."""

import json
from collections.abc import Callable
from typing import Any, Unpack

from jaato_gc import (
    ContextUsage,
    EstimateCounter,
    FunctionCall,
    GCConfig,
    GCPlugin,
    GCSession,
    GCTriggerReason,
    InstructionBudget,
    Message,
    Part,
    PluginRegistry,
    Role,
    ToolResult,
    count_tokens,
)
from jaato_gc.plugin import (
    Collection,
    GCSessionOptions,
    GCStrategy,
    Provider,
    StrategySettings,
    should_collect,
)

COUNTER = EstimateCounter()
"""The counter of the kit. It gives the same figures on every machine."""

LONG_TEXT = "lorem ipsum dolor sit amet " * 10
"""The default content of a message that `speak` appends."""


class OldestFirst(GCStrategy[StrategySettings]):
    """Removes the oldest turns, then old calls of recent turns, like gc_truncate."""

    name = "gc_oldest"

    def select(self, collection: Collection) -> None:
        """Removes the oldest turns, then old calls of recent turns."""
        collection.remove_oldest(collection.turns, "oldest")


class ScriptedStrategy(GCStrategy[StrategySettings]):
    """Runs a function on every collection.

    Args:
        script: Called with the collection, like `GCStrategy.select`.
    """

    name = "gc_scripted"

    def __init__(self, script: Callable[[Collection], object]) -> None:
        super().__init__()
        self.script = script

    def select(self, collection: Collection) -> None:
        """Runs the function."""
        self.script(collection)


class ScriptedPlugin:
    """A plugin that is not a `GCStrategy`: runs a function on every history.

    Args:
        script: Called with the history; returns what ``collect`` returns.
    """

    name = "gc_scripted_plugin"

    def __init__(self, script: Callable[[list[Message]], Any]) -> None:
        self.script = script
        self.calls = 0

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        """Has no options."""

    def shutdown(self) -> None:
        """Has no resources."""

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Returns core's answer."""
        return should_collect(context_usage, config)

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,  # noqa: ARG002
        config: GCConfig,  # noqa: ARG002
        reason: GCTriggerReason,  # noqa: ARG002
        budget: InstructionBudget | None = None,  # noqa: ARG002
    ) -> Any:
        """Runs the function."""
        self.calls += 1
        return self.script(history)


def new_session(
    strategy: GCPlugin | None = None,
    config: GCConfig | None = None,
    /,
    provider: Provider | None = None,
    **options: Unpack[GCSessionOptions],
) -> GCSession:
    """Returns a session that counts with the estimate and loads no installed plugins.

    Args:
        strategy: The strategy; without one, the session has none.
        config: The configuration.
        provider: Sends a request to the model.
        **options: Other arguments of `GCSession`.
    """
    options.setdefault("counter", COUNTER)
    options.setdefault("registry", PluginRegistry(load_installed=False))
    session = GCSession(provider, **options)
    if strategy is not None:
        session.set_gc_plugin(strategy, config)
    return session


def restarted(session: GCSession, /, **options: Unpack[GCSessionOptions]) -> GCSession:
    """Returns a session as it is after a restart of its host: saved and restored.

    It has the strategy, counter, registry and stash of the first.

    Args:
        session: The session.
        **options: Other arguments of `GCSession`.
    """
    options.setdefault("counter", session.budget.counter)
    options.setdefault("registry", session.registry)
    options.setdefault("stash", session.stash)
    return GCSession.restore(session.save(), strategy=session.strategy, **options)


def turn_messages(number: int, *, calls: int = 0, text: str = LONG_TEXT) -> list[Message]:
    """Returns the messages of a turn: a request, calls with their results, and an answer.

    The ids of turn 3 are ``u3``, ``c3.0`` and ``r3.0`` for its first call, and ``a3``.

    Args:
        number: The number of the turn.
        calls: How many calls it has.
        text: The content of its messages.
    """
    messages = [Message.from_text(Role.USER, f"{number} {text}", message_id=f"u{number}")]
    for each in range(calls):
        name = f"{number}.{each}"
        call = FunctionCall(name, "look", {"at": name})
        result = ToolResult(name, "look", f"{name} {text}")
        messages.append(Message(Role.MODEL, [Part(function_call=call)], f"c{name}"))
        messages.append(Message(Role.TOOL, [Part(function_response=result)], f"r{name}"))
    answer = Message.from_text(Role.MODEL, f"{number} {text}", message_id=f"a{number}")
    return [*messages, answer]


def speak(session: GCSession, *turns: int, calls: int = 0, text: str = LONG_TEXT) -> None:
    """Appends turns to a session: see `turn_messages`."""
    for turn in turns:
        for message in turn_messages(turn, calls=calls, text=text):
            session.append(message)


def message_ids(session: GCSession) -> list[str]:
    """Returns the ids of the messages in the history."""
    return [message.message_id for message in session.history]


def assert_in_step(session: GCSession) -> None:
    """Checks that the budget equals a recount, and that every message is booked exactly once."""
    budget, history = session.budget, session.history
    booked: list[str] = []
    beside = 0
    for source in budget.entries.values():
        for entry in source.walk():
            booked += entry.message_ids
            if not entry.message_ids:
                beside += entry.tokens  # tool schemas, enrichment
            for message_id in entry.message_ids:
                assert budget.entry_of(message_id) is entry, f"{message_id} is booked elsewhere"
    assert sorted(booked) == sorted(message.message_id for message in history)
    counted = budget.counted_tokens()
    assert counted == count_tokens(history, budget.counter) + beside, f"the budget has {counted}"


def saved_state(session: GCSession) -> dict[str, Any]:
    """Returns what a session saves, without what counts, explains or announces failures."""
    saved: dict[str, Any] = json.loads(session.save())
    saved["journal"] = [entry for entry in saved["journal"] if entry["state"] == "applied"]
    attempts = ("plans_made", "recorded", "waits_until", "disabled", "threshold_told")
    return {key: value for key, value in saved.items() if key not in attempts}
