"""Situations in which a strategy has to collect: a history, a window, a configuration, a reason."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from jaato_gc import (
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    SyntheticKind,
    check_history,
    count_tokens,
)
from jaato_gc.plugin import ReadOnlyBudget
from jaato_gc_testing._histories import broken_histories, histories
from jaato_gc_testing._operations import long_history
from jaato_gc_testing._sessions import COUNTER, new_session


@dataclass
class Situation:
    """A history, and the collection that a strategy has to make of it.

    Args:
        history: The history.
        config: The configuration of the session.
        reason: Why the collection runs.
        context_limit: The window of the model.
        pinned: Positions of pinned messages.
        schema_tokens: Tokens of tool schemas. They are EPHEMERAL, but no strategy may remove them,
            because the host has no way to drop them.
        unbooked_tokens: The tokens that the provider reports in addition to the counted ones.
    """

    history: list[Message]
    config: GCConfig
    reason: GCTriggerReason
    context_limit: int
    pinned: list[int] = field(default_factory=list)
    schema_tokens: int = 0
    unbooked_tokens: int = 0

    def session(self, strategy: GCPlugin) -> GCSession:
        """Returns a session with the history and the strategy."""
        session = new_session(context_limit=self.context_limit)
        booked = [session.append(message) for message in self.history]
        for position in self.pinned:
            session.pin(booked[position].message_id)
        if self.schema_tokens:
            session.budget.add_child(
                InstructionSource.PLUGIN, "schemas", self.schema_tokens, GCPolicy.EPHEMERAL
            )
        session.budget.unbooked_tokens = self.unbooked_tokens
        session.set_gc_plugin(strategy, self.config)
        return session


_PLAIN_HISTORIES = st.integers(4, 12).map(long_history)
"""Histories with several equal turns, so that goals can be reached."""


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Generates situations: histories of all kinds, in windows from half empty to too small."""
    of_agents = histories(min_turns=0)
    history = draw(st.one_of(*[_PLAIN_HISTORIES] * 2, of_agents, broken_histories()))
    if draw(st.booleans()):  # a host need not lock the first request
        history = [
            replace(each, policy=GCPolicy.PARTIAL) if each.opens_turn else each for each in history
        ]
    # All but notices, which are replaced even if they are pinned.
    pinnable = [at for at, each in enumerate(history) if each.synthetic is not SyntheticKind.NOTICE]
    pin = draw(st.integers(0, 2 * len(pinnable)))
    schema_tokens = draw(st.sampled_from([0, 0, 30]))
    unbooked_tokens = draw(st.sampled_from([0, 0, 20]))
    tokens = count_tokens(history, COUNTER) + schema_tokens + unbooked_tokens
    return Situation(
        history,
        GCConfig(
            threshold_percent=80.0,
            target_percent=draw(st.sampled_from([5.0, 30.0, 60.0])),
            pressure_percent=draw(st.sampled_from([90.0, 90.0, None])),
            preserve_recent_turns=draw(st.integers(0, 3)),
            preserve_recent_groups=draw(st.integers(0, 2)),
            pinned_turn_indices=draw(st.lists(st.integers(0, 4), max_size=1)),
            max_turns=draw(st.sampled_from([None, 1, 2, 3, 4])),
        ),
        draw(st.sampled_from(GCTriggerReason)),
        max(1, int(tokens * draw(st.sampled_from([0.7, 1.0, 1.6])))),
        pinnable[pin : pin + 1],
        schema_tokens,
        unbooked_tokens,
    )


@dataclass
class Answer:
    """The answer of a strategy to a situation."""

    session: GCSession
    before: Sequence[Message]
    after: list[Message]
    result: GCResult


def ask(strategy: GCPlugin, situation: Situation) -> Answer:
    """Returns the answer of a strategy: what its ``collect`` returns.

    A ``collect`` without ``budget`` is called by the session, which puts back what is locked or
    pinned. It need not handle invalid histories.
    """
    session = situation.session(strategy)
    if takes_budget(strategy):
        history = session.history
        after, result = strategy.collect(*arguments(session, strategy, situation.reason))
        return Answer(session, history, after, result)
    plan = session.plan_gc(situation.reason)
    assume_answer(strategy, plan.before, plan.result)
    return Answer(session, list(plan.before), plan.after, plan.result)


def assume_answer(strategy: GCPlugin, before: Sequence[Message], result: GCResult) -> None:
    """Fails unless the answer is a success. Skips examples that the strategy need not handle.

    If the request does not fit otherwise, core replaces a strategy that fails: that is no success.
    """
    error = result.details.get("strategy_error")
    excused = (error or result.outcome is GCOutcome.REJECTED) and not takes_budget(strategy)
    if excused and check_history(before):
        reject()
    assert result.success, result.error
    assert error is None, error


def arguments(session: GCSession, strategy: GCPlugin, reason: GCTriggerReason) -> list[Any]:
    """Returns the arguments that a session gives to ``collect``."""
    history, usage = [*session.history], session.get_context_usage()
    given: list[Any] = [history, usage, session.config, reason]
    if not takes_budget(strategy):
        return given
    # The budget has the pins as message ids; a strategy that does not see it gets indices.
    given[2] = session.config.model_copy(update={"pinned_turn_indices": ()})
    return [*given, ReadOnlyBudget(session.budget)]


def takes_budget(strategy: GCPlugin) -> bool:
    """Returns whether ``collect`` of a strategy takes a budget."""
    parameters = inspect.signature(strategy.collect).parameters.values()
    return any(each.name == "budget" or each.kind is each.VAR_POSITIONAL for each in parameters)
