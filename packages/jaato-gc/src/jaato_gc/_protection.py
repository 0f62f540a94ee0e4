"""What may not be removed: LOCKED, pinned, recent, and calls that wait for their answer."""

from collections.abc import Iterable, Sequence

from jaato_gc._budget import InstructionBudget
from jaato_gc._config import GCConfig
from jaato_gc._messages import SYSTEM
from jaato_gc._policies import LOCKED, GCPolicy
from jaato_gc._turns import Group, Hold, Layout

_PARTIAL = GCPolicy.PARTIAL
_DEARNESS = {policy: -rank for rank, policy in enumerate(GCPolicy)}  # from never to first


def protect(
    layout: Layout,
    config: GCConfig,
    budget: InstructionBudget | None = None,
    policies: Sequence[GCPolicy] | None = None,
) -> None:
    """Set `Group.policy` on every group, and `Group.hold` on those that must stay.

    One protected message protects its whole group, so a call never loses its result; the rest of
    its turn may still go. Where several reasons apply, the strongest is set.

    Args:
        layout: The groups and turns.
        config: How many turns are recent, and which are pinned.
        budget: What the messages are booked in, if anything.
        policies: The policy of each group, if it is known.
    """
    before = layout.protected_under
    if before is not None and before[0] is config and before[1] is budget:
        return
    layout.protected_under = config, budget
    pinned_ids = budget.pinned_message_ids if budget else set()
    if policies is None:
        policies = policies_of(layout.groups, budget)
    for group, policy in zip(layout.groups, policies, strict=True):
        hold: Hold | None = None
        if policy is LOCKED:
            hold = Hold.LOCKED
        elif pinned_ids and any(message.message_id in pinned_ids for message in group.messages):
            hold = Hold.PINNED
        elif group.is_open:
            hold = Hold.OPEN_CALL
        group.policy, group.hold = policy, hold
    turns = len(layout.turns)
    recent = range(max(0, turns - config.preserve_recent_turns), turns)
    pinned = {index for index in config.pinned_turn_indices if index < turns}
    for index in pinned.union(recent):
        because = Hold.PINNED if index in pinned else Hold.RECENT
        for group in layout.turns[index].groups:
            group.hold = group.hold or because
    _keep_a_user_message_first(layout)


def policies_of(groups: Iterable[Group], budget: InstructionBudget | None) -> list[GCPolicy]:
    """How dear each group is: as its dearest message."""
    booked = budget._by_message if budget else {}
    policies: list[GCPolicy] = []
    for group in groups:
        policy: GCPolicy | None = None
        for message in group.messages:
            # As the host said, as it is booked, or as its like usually is.
            own = LOCKED if message.role is SYSTEM else message.policy
            if own is None:
                entry = booked.get(message.message_id)
                own = _PARTIAL if entry is None else entry._binding_policy
            if policy is None or (own is not policy and _DEARNESS[own] > _DEARNESS[policy]):
                policy = own
        policies.append(policy or _PARTIAL)
    return policies


def _keep_a_user_message_first(layout: Layout) -> None:
    """Providers want a user message before anything else.

    Turns go oldest first, so what remains starts with a whole turn, or with the first protected
    group: if that is no user message, the one that opens its turn stays with it.
    """
    for turn in layout.turns:
        if not any(group.hold for group in turn.groups):
            continue
        for group in turn.groups:
            if group.opens_turn:
                group.hold = group.hold or Hold.FIRST_USER
            if group.hold:
                return
