"""Protection from removal: what is fixed, and what is recent."""

from collections.abc import Iterable, Sequence
from itertools import dropwhile

from jaato_gc.budget import InstructionBudget
from jaato_gc.config import GCConfig
from jaato_gc.history import Group, Hold, Layout, Turn, may_go, turn_starts
from jaato_gc.messages import SYSTEM, USER
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import TokenCounter, count_tokens

_LOCKED, _PARTIAL = GCPolicy.LOCKED, GCPolicy.PARTIAL
_STRICTNESS = {policy: -rank for rank, policy in enumerate(GCPolicy)}  # from never to first


RECENT_SHARE = 0.2
"""The share of the window that the messages of recent turns may take in any case."""
LEFT_SHARE = 0.5
"""The share that they may take of what the target leaves. Calls and summaries need the rest."""


def recent_turns(
    layout: Layout, config: GCConfig, window: int | None, room_in_target: int, counter: TokenCounter
) -> int:
    """Returns how many of the newest turns are recent: one at least, the running turn.

    What user and model said in them stays, so they may take a fifth of the window or, if that is
    more, half of what the target leaves. Otherwise a pasted document or a long answer would leave
    no room for tool output.

    Args:
        layout: The groups and turns, with holds, as if only the running turn was recent.
        config: ``preserve_recent_turns`` is the most.
        window: The size of the largest request; ``None`` if it is unknown.
        room_in_target: The tokens that the target leaves to the history.
        counter: Counts the tokens.
    """
    most = max(1, config.preserve_recent_turns)
    if window is None:
        return most
    said = [_said_in(turn) for turn in reversed(layout.turns[-most:])]
    recent = {id(group) for groups in said for group in groups}
    stays = (
        group
        for group in layout.groups
        if (group.hold or group.is_outside_turns) and id(group) not in recent
    )
    room = max(window * RECENT_SHARE, (room_in_target - group_tokens(stays, counter)) * LEFT_SHARE)
    for number, groups in enumerate(said):
        room -= group_tokens(groups, counter)
        if room < 0:
            return max(1, number)
    return most


def _said_in(turn: Turn) -> list[Group]:
    """Returns the groups without calls since the request of a turn.

    What precedes the request is left of turns that were removed.
    """
    since_request = dropwhile(lambda group: not group.opens_turn, turn.groups)
    return [group for group in since_request if not group.is_call]


def group_tokens(groups: Iterable[Group], counter: TokenCounter) -> int:
    """Returns the tokens of some groups."""
    return count_tokens((message for group in groups for message in group.messages), counter)


def protect(
    layout: Layout,
    config: GCConfig,
    budget: InstructionBudget | None = None,
    *,
    recent: int | None = None,
    whole_turns: bool = False,
) -> Layout:
    """Returns the layout with `Group.policy` set, and `Group.hold` on the groups that must stay.

    Fixed are LOCKED and pinned groups, the newest user message, and calls that wait for a result.
    A message that keeps its place holds the groups beside it if it is LOCKED or pinned, and is
    recent if all of them are held.
    Recent are the messages without calls in the last ``preserve_recent_turns`` turns, and the last
    ``preserve_recent_groups`` calls. Older calls in recent turns may go: one turn of an agent can
    be the whole run. One protected message protects its whole group, so a call never loses its
    result. If several reasons apply, the strongest is set.

    Args:
        layout: The groups and turns.
        config: How many turns and calls are recent, and which turns are pinned.
        budget: The budget that the messages are booked in, if any.
        recent: The number of recent turns; by default ``preserve_recent_turns``.
        whole_turns: Protect older calls in recent turns too, because the goal is a number of turns,
            or everything outside of recent turns.
    """
    pinned_ids = budget.pinned_message_ids if budget else frozenset()
    policies = _policies(layout.groups, budget)
    recent = max(1, config.preserve_recent_turns) if recent is None else recent
    holds = _holds_by_place(layout.groups, config, recent, whole_turns=whole_turns)
    for place, group in enumerate(layout.groups):
        hold = holds[place]
        if policies[place] is _LOCKED:
            holds[place] = Hold.LOCKED
        elif pinned_ids and any(message.message_id in pinned_ids for message in group.messages):
            holds[place] = Hold.PINNED
        elif group.is_open and hold is not Hold.PINNED:
            holds[place] = Hold.OPEN_CALL
    beside = _groups_beside(layout.groups)
    for keeper, places in beside.items():
        for place in places if holds[keeper] else ():
            if not (own := holds[place]) or not own.is_fixed:
                holds[place] = holds[keeper]
    protected = list(layout.groups)
    first_held: int | None = None
    for place, group in enumerate(layout.groups):
        policy, hold = policies[place], holds[place]
        in_turn = not (group.is_outside_turns or group.is_system)
        if hold is not None and first_held is None and in_turn:
            first_held = place
        if policy is not group.policy or hold is not group.hold:
            protected[place] = group._replace(policy=policy, hold=hold)
    if first_held is not None:
        _hold_request(protected, first_held)
    for keeper, places in beside.items():
        if not protected[keeper].hold and all(protected[place].hold for place in places):
            protected[keeper] = protected[keeper]._replace(hold=Hold.RECENT)
    return Layout(tuple(protected))


def _groups_beside(groups: Sequence[Group]) -> dict[int, list[int]]:
    """Returns the places of the groups beside each one that keeps its place."""
    keepers = {place: group for place, group in enumerate(groups) if group.neighbours}
    if not keepers:
        return {}
    place_of = {
        message.message_id: at for at, each in enumerate(groups) for message in each.messages
    }
    return {
        place: [place_of[each] for each in group.neighbours] for place, group in keepers.items()
    }


def _holds_by_place(
    groups: Sequence[Group], config: GCConfig, recent: int, *, whole_turns: bool
) -> list[Hold | None]:
    """Returns the hold that each group has because of its place, or of a pinned turn."""
    starts = turn_starts(groups)
    ends = [*starts[1:], len(groups)]
    calls = [place for place, group in enumerate(groups) if group.is_call]
    holds: list[Hold | None] = [None] * len(groups)
    for place in range(starts[-recent:][0], len(groups)):
        if whole_turns or not groups[place].is_call:
            holds[place] = Hold.RECENT
    for place in calls[len(calls) - min(len(calls), config.preserve_recent_groups) :]:
        holds[place] = Hold.RECENT
    for place in range(starts[-1], len(groups)):
        if groups[place].opens_turn:
            holds[place] = Hold.NEWEST_USER
    for turn in config.pinned_turn_indices:
        if turn < len(starts):
            holds[starts[turn] : ends[turn]] = [Hold.PINNED] * (ends[turn] - starts[turn])
    for place, group in enumerate(groups):
        # A message that keeps its place is held by the messages beside it, wherever it is.
        if group.is_outside_turns or (group.neighbours and holds[place] is Hold.RECENT):
            holds[place] = None
    if not any(group.opens_turn for group in groups):
        # A summary, say, is the only user message then: without it there is nothing to send.
        for place in range(len(groups) - 1, -1, -1):
            if groups[place].messages[0].role is USER and not groups[place].is_call:
                holds[place] = Hold.NEWEST_USER
                break
    return holds


def _policies(groups: Iterable[Group], budget: InstructionBudget | None) -> list[GCPolicy]:
    """Returns the strictest policy of each group: the host's, the booked, or the default."""
    policies = []
    for group in groups:
        strictest: GCPolicy | None = None
        for message in group.messages:
            policy = message.policy
            if message.role is SYSTEM and (group.is_outside_turns or not may_go(message)):
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


# --- what is fixed ---


def fixed_groups(groups: Sequence[Group]) -> list[Group]:
    """Returns the groups that no collection may remove.

    If the first of them is not a user message, the request of its turn is among them.
    """
    fixed: list[Group] = []
    request, is_first = None, True
    for group in groups:
        if group.opens_turn:
            request = group
        if not (group.hold and group.hold.is_fixed):
            continue
        if is_first and request and not group.is_system and not group.is_user:
            fixed.append(request)
        is_first = is_first and group.is_system
        fixed.append(group)
    return fixed


def movable_tokens(
    groups: Sequence[Group], budget: InstructionBudget | None, counter: TokenCounter
) -> int:
    """Returns the tokens that are not fixed, including what the host can drop for a strategy."""
    fixed = set(map(id, fixed_groups(groups)))
    tokens = group_tokens((group for group in groups if id(group) not in fixed), counter)
    if budget is None:
        return tokens
    elsewhere = budget.collectable_sources - {InstructionSource.CONVERSATION}
    return tokens + sum(
        entry.tokens
        for source in elsewhere & budget.entries.keys()
        for entry in budget.entries[source].walk()
        if entry.binding_policy() is not GCPolicy.LOCKED
    )
