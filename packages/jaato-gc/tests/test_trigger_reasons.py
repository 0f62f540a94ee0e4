"""Every reason for an automatic collection: one that gains nothing is not repeated at once."""

from collections.abc import Callable

import pytest

from jaato_gc import GCConfig, GCSession, GCTriggerReason
from jaato_gc_testing import OldestFirst, ScriptedStrategy, new_session, speak

DUE: dict[GCTriggerReason, Callable[[GCSession], None]] = {
    GCTriggerReason.THRESHOLD: lambda session: session.report_usage(1_950),
    GCTriggerReason.TURN_LIMIT: lambda session: speak(session, 4),
}
"""Makes the reason due in a session with four turns."""

OF_THE_HOST = {
    GCTriggerReason.MANUAL,
    GCTriggerReason.CONTEXT_LIMIT,
    GCTriggerReason.PRE_MESSAGE,
    GCTriggerReason.CACHE_COLD,
}
"""A call of the host or a pause, each of which is over with the collection."""


def session_with(strategy: OldestFirst | ScriptedStrategy, target: float = 10) -> GCSession:
    config = GCConfig(max_turns=4, preserve_recent_turns=1, target_percent=target)
    session = new_session(strategy, config, context_limit=2_000)
    speak(session, 0, 1, 2, 3)
    session.before_send()
    return session


def test_every_reason_is_known_here() -> None:
    assert set(GCTriggerReason) == DUE.keys() | OF_THE_HOST


@pytest.mark.parametrize("reason", DUE)
def test_a_strategy_without_a_session_gets_the_same_reason(reason: GCTriggerReason) -> None:
    strategy = OldestFirst()
    session = session_with(strategy)
    DUE[reason](session)

    assert strategy.should_collect(session.get_context_usage(), session.config) == (True, reason)


@pytest.mark.parametrize("reason", DUE)
def test_a_reason_collects_once_if_little_or_nothing_is_above_the_target(
    reason: GCTriggerReason,
) -> None:
    session = session_with(OldestFirst(), target=79)
    DUE[reason](session)

    for _ in range(3):
        session.after_turn()
        session.before_send()

    assert [result.trigger_reason for result in session.get_gc_history()] == [reason]


@pytest.mark.parametrize("gains", [True, False])
@pytest.mark.parametrize("reason", DUE)
def test_a_reason_collects_once_until_something_is_added(
    reason: GCTriggerReason, gains: bool
) -> None:
    session = session_with(OldestFirst() if gains else ScriptedStrategy(lambda _: None))
    DUE[reason](session)

    for _ in range(3):
        session.after_turn()
        session.before_send()

    assert [result.trigger_reason for result in session.get_gc_history()] == [reason]
