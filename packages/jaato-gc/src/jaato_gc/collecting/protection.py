"""Protection from removal: LOCKED, pinned and recent groups, and calls that wait for a result."""

from collections.abc import Iterable, Sequence

from jaato_gc.budget import InstructionBudget
from jaato_gc.config import GCConfig
from jaato_gc.history import Group, Hold, Layout, new_group, turn_starts
from jaato_gc.messages import SYSTEM
from jaato_gc.policies import GCPolicy

_LOCKED, _PARTIAL = GCPolicy.LOCKED, GCPolicy.PARTIAL
_STRICTNESS = {policy: -rank for rank, policy in enumerate(GCPolicy)}  # from never to first


def protect(layout: Layout, config: GCConfig, budget: InstructionBudget | None = None) -> Layout:
    """Returns the layout with `Group.policy` set, and `Group.hold` on the groups that must stay.

    One protected message protects its whole group, so a call never loses its result. The rest of
    its turn may still go. If several reasons apply, the strongest is set.

    Args:
        layout: The groups and turns.
        config: How many turns are recent, and which are pinned.
        budget: The budget that the messages are booked in, if any.
    """
    pinned_ids = budget.pinned_message_ids if budget else frozenset()
    policies = _policies(layout.groups, budget)
    holds = _holds_of_turns(layout.groups, config)
    protected = list(layout.groups)
    first_held: int | None = None
    for place, group in enumerate(layout.groups):
        policy, hold = policies[place], holds[place]
        if policy is _LOCKED:
            hold = Hold.LOCKED
        elif pinned_ids and any(message.message_id in pinned_ids for message in group.messages):
            hold = Hold.PINNED
        elif group.is_open:
            hold = Hold.OPEN_CALL
        if hold is not None and first_held is None and not group.is_outside_turns:
            first_held = place
        if policy is not group.policy or hold is not group.hold:
            protected[place] = new_group((*group[:5], policy, hold))
    if first_held is not None:
        _hold_request(protected, first_held)
    return Layout(tuple(protected))


def _holds_of_turns(groups: Sequence[Group], config: GCConfig) -> list[Hold | None]:
    """Returns for each group the hold that it has as a part of a pinned or recent turn."""
    starts = turn_starts(groups)
    ends = [*starts[1:], len(groups)]
    recent = config.preserve_recent_turns
    spans = [(starts[-recent:][0], len(groups), Hold.RECENT)] if recent else []
    pinned = [turn for turn in config.pinned_turn_indices if turn < len(starts)]
    spans += [(starts[turn], ends[turn], Hold.PINNED) for turn in pinned]
    holds: list[Hold | None] = [None] * len(groups)
    for start, end, hold in spans:
        for place in range(start, end):
            if not groups[place].is_outside_turns:
                holds[place] = hold
    return holds


def _policies(groups: Iterable[Group], budget: InstructionBudget | None) -> list[GCPolicy]:
    """Returns the strictest policy of each group: the host's, the booked, or the default."""
    policies = []
    for group in groups:
        strictest: GCPolicy | None = None
        for message in group.messages:
            policy = message.policy
            if message.role is SYSTEM:
                policy = _LOCKED
            elif policy is None:
                entry = budget.entry_of(message.message_id) if budget else None
                policy = entry.binding_policy() if entry else _PARTIAL
            if strictest is None or _STRICTNESS[policy] > _STRICTNESS[strictest]:
                strictest = policy
        policies.append(strictest or _PARTIAL)
    return policies


def _hold_request(groups: list[Group], first_held: int) -> None:
    """Holds the request of the first turn that stays, because providers want a user message first.

    Turns go oldest first, so what remains starts with a whole turn or with the first held group.
    If that is not a user message, the one that opens its turn stays with it.
    """
    for place in range(first_held, -1, -1):
        group = groups[place]
        if group.opens_turn:
            if not group.hold:
                groups[place] = group._replace(hold=Hold.FIRST_USER)
            return
