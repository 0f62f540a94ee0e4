"""Histories with content under each policy, in windows with and without pressure."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jaato_gc import GCConfig, GCPolicy, GCTriggerReason, count_tokens
from jaato_gc_testing._sessions import COUNTER, turn_messages
from jaato_gc_testing._situations import Situation

_TURNS = 6
_MARKED_TURN = 2
"""The turn with content under the policy: old, and not the first, whose request always stays."""
_USED_PERCENT = 70
"""So much of the window is used that pressure is a matter of configuration, and everything fits."""


class PolicyCase(NamedTuple):
    """A situation in which the target needs everything that may be removed.

    Args:
        policy: The policy.
        under_pressure: Whether the window is under pressure.
        situation: The situation.
        message_ids: The messages under the policy.
    """

    policy: GCPolicy
    under_pressure: bool
    situation: Situation
    message_ids: list[str]

    def __str__(self) -> str:
        return f"{self.policy.name} and {'under' if self.under_pressure else 'without'} pressure"


def policy_cases() -> Iterator[PolicyCase]:
    """Yields a whole turn and a single call under each policy, without pressure and under it."""
    for policy in GCPolicy:
        for under_pressure in (False, True):
            for marked in ("ucra", "cr"):
                yield _case(policy, marked, under_pressure=under_pressure)


def _case(policy: GCPolicy, marked: str, *, under_pressure: bool) -> PolicyCase:
    """Returns the case with the policy on the messages whose ids begin with a marked letter."""
    history = [message for turn in range(_TURNS) for message in turn_messages(turn, calls=1)]
    ids = [
        message.message_id
        for message in turn_messages(_MARKED_TURN, calls=1)
        if message.message_id[0] in marked
    ]
    history = [
        replace(message, policy=policy) if message.message_id in ids else message
        for message in history
    ]
    config = GCConfig(
        threshold_percent=20.0,
        target_percent=1.0,
        pressure_percent=50.0 if under_pressure else 99.0,
        preserve_recent_turns=1,
        preserve_recent_groups=1,
    )
    window = count_tokens(history, COUNTER) * 100 // _USED_PERCENT
    situation = Situation(history, config, GCTriggerReason.THRESHOLD, window)
    return PolicyCase(policy, under_pressure, situation, ids)
