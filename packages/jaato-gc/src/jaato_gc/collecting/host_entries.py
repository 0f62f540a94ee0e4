"""The entries of a host's own budget, which go as a whole.

Such a host follows a collection by removing the entries that the removal list names. If a part of
an entry went, or became shorter, its budget would differ from the history from then on.
"""

from collections.abc import Mapping, Sequence

from jaato_gc.budget import HostBudget, InstructionBudget
from jaato_gc.history import Group, Layout, join, leader_of
from jaato_gc.messages import Message
from jaato_gc.policies import InstructionSource


def has_host_entries(budget: InstructionBudget | None) -> bool:
    """Returns whether a host follows collections by the entries of its own budget."""
    if not isinstance(budget, HostBudget) or budget.is_recounted:
        return False
    conversation = budget.get_entry(InstructionSource.CONVERSATION)
    return bool(conversation and conversation.children)


def host_entry(budget: InstructionBudget, message: Message) -> str | None:
    """Returns the key of the host's entry that a message goes with; ``None``: it goes alone."""
    entry = budget.entry_of(message.message_id)
    return entry.key if entry else None


def join_host_entries(
    layout: Layout, budget: InstructionBudget, positions: Mapping[str, int]
) -> Layout:
    """Returns the layout with one group for all messages of an entry.

    Args:
        layout: The groups.
        budget: The host's budget.
        positions: The position of each message in the history, by id.
    """
    groups = layout.groups
    leaders: dict[int, int] = {}
    first_of: dict[str, int] = {}
    for place, group in enumerate(groups):
        for message in group.messages:
            if (key := host_entry(budget, message)) is not None:
                join(leaders, first_of.setdefault(key, place), place)
    together: dict[int, list[Group]] = {}
    for place, group in enumerate(groups):
        together.setdefault(leader_of(leaders, place), []).append(group)
    return Layout(tuple([_join(members, positions) for members in together.values()]))


def _join(groups: Sequence[Group], positions: Mapping[str, int]) -> Group:
    if len(groups) == 1:
        return groups[0]
    messages = [message for group in groups for message in group.messages]
    own = {message.message_id for message in messages}
    return Group(
        tuple(sorted(messages, key=lambda message: positions[message.message_id])),
        opens_turn=any(group.opens_turn for group in groups),
        is_outside_turns=all(group.is_outside_turns for group in groups),
        is_call=all(group.is_call for group in groups),
        is_open=any(group.is_open for group in groups),
        neighbours=tuple(each for group in groups for each in group.neighbours if each not in own),
    )
