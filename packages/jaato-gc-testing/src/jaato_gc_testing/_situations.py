"""Where a strategy is asked to collect: a history, a window, a configuration and a reason."""

import inspect
from dataclasses import dataclass, field
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from jaato_gc import (
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPolicy,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionSource,
    Message,
    PluginRegistry,
    SyntheticKind,
    check_history,
    count_tokens,
)
from jaato_gc_testing._histories import broken_histories, histories
from jaato_gc_testing._operations import long_history

COUNTER = EstimateCounter()
"""What the whole kit counts with: the same on every machine."""


@dataclass
class Situation:
    """A history in a session, and what is asked of the strategy there.

    Args:
        history: What was said so far.
        config: The host's configuration.
        reason: Why the collection runs.
        context_limit: The model's window.
        pinned: Positions of messages that the host pinned.
        schema_tokens: Tokens of tool schemas, which no strategy may take: they are EPHEMERAL, but
            the host did not say how to drop them.
        correction: What the provider reports beyond what was counted.
    """

    history: list[Message]
    config: GCConfig
    reason: GCTriggerReason
    context_limit: int
    pinned: list[int] = field(default_factory=list)
    schema_tokens: int = 0
    correction: int = 0

    def session(self, plugin: GCPlugin) -> GCSession:
        """A session that holds the history and would collect with the strategy."""
        session = GCSession(
            context_limit=self.context_limit,
            counter=COUNTER,
            registry=PluginRegistry(load_installed=False),
        )
        booked = [session.append(message) for message in self.history]
        for position in self.pinned:
            session.pin(booked[position].message_id)
        if self.schema_tokens:
            session.budget.add_child(
                InstructionSource.PLUGIN, "schemas", self.schema_tokens, GCPolicy.EPHEMERAL
            )
        session.budget.correction = self.correction
        session.set_gc_plugin(plugin, self.config)
        return session


_PLAIN_HISTORIES = st.integers(4, 12).map(long_history)
"""With turns alike and to spare, so that goals are within reach."""


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Histories of all kinds, from half empty to overfull windows."""
    history = draw(st.one_of(*[_PLAIN_HISTORIES] * 2, histories(), broken_histories()))
    # Everything but notices, which are replaced whatever anyone wants.
    pinnable = [at for at, each in enumerate(history) if each.synthetic is not SyntheticKind.NOTICE]
    pin = draw(st.integers(0, 2 * len(pinnable)))
    schema_tokens = draw(st.sampled_from([0, 0, 30]))
    correction = draw(st.sampled_from([0, 0, 20]))
    tokens = count_tokens(history, COUNTER) + schema_tokens + correction
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
        correction,
    )


@dataclass
class Answer:
    """What a strategy made of a situation."""

    session: GCSession
    before: list[Message]
    after: list[Message]
    result: GCResult


def ask(plugin: GCPlugin, situation: Situation) -> Answer:
    """What the strategy itself answers.

    One that knows nothing of a budget answers through the session, which looks after locks and pins
    for it. Such a strategy need not cope with a history that could not be sent anyway.
    """
    session = situation.session(plugin)
    if takes_budget(plugin):
        history = session.history
        after, result = plugin.collect(*arguments(session, plugin, situation.reason))
        return Answer(session, history, after, result)
    plan = session.plan_gc(situation.reason)
    assume_answer(plugin, plan.before, plan.result)
    return Answer(session, plan.before, plan.after, plan.result)


def assume_answer(plugin: GCPlugin, before: list[Message], result: GCResult) -> None:
    """Leave the example out if it is one that the strategy need not cope with."""
    excused = result.outcome is GCOutcome.REJECTED and not takes_budget(plugin)
    if excused and check_history(before):
        reject()
    assert result.success, result.error


def arguments(session: GCSession, plugin: GCPlugin, reason: GCTriggerReason) -> list[Any]:
    """What a session would call ``collect`` with."""
    given: list[Any] = [session.history, session.get_context_usage(), session.config, reason]
    if not takes_budget(plugin):
        return given
    # Pins are message ids in the budget; only a strategy that does not see it gets indices.
    given[2] = session.config.model_copy(update={"pinned_turn_indices": []})
    return [*given, session.budget]


def takes_budget(plugin: GCPlugin) -> bool:
    """Whether a strategy wants to see the budget."""
    parameters = inspect.signature(plugin.collect).parameters.values()
    return any(each.name == "budget" or each.kind is each.VAR_POSITIONAL for each in parameters)
