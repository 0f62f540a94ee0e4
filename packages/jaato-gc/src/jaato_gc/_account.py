"""The honest account of a collection: how it ended, what is in the way, what it costs a cache."""

from collections.abc import Iterable, Sequence

from jaato_gc._budget import InstructionBudget
from jaato_gc._messages import SYSTEM, Message
from jaato_gc._policies import InstructionSource
from jaato_gc._results import CacheImpact, GCOutcome, Shortfall
from jaato_gc._takings import Takings
from jaato_gc._tokens import DEFAULT_COUNTER, TokenCounter, count_tokens
from jaato_gc._triggers import Goal
from jaato_gc._turns import Group, Hold


def outcome_of(goal: Goal, *, freed: int, turns_removed: int, anything_taken: bool) -> GCOutcome:
    """How a collection ended that had this goal."""
    wanted = goal.tokens_to_free is None or goal.tokens_to_free > 0 or goal.turns_to_remove > 0
    if not anything_taken:
        return GCOutcome.NO_GAIN if wanted else GCOutcome.NOT_NEEDED
    enough = freed >= (goal.tokens_to_free or 0) and turns_removed >= goal.turns_to_remove
    return GCOutcome.REACHED if enough else GCOutcome.SHORT


def shortfall_of(
    missing: int,
    groups: Iterable[Group],
    remaining: Iterable[Message],
    takings: Takings,
    budget: InstructionBudget | None,
    counter: TokenCounter,
) -> Shortfall:
    """Who holds what remains, so that a user can see what to change."""
    held: dict[str, int] = {}
    largest, largest_tokens = None, 0
    for group in groups:
        for message in group.messages if group.hold else ():
            tokens = takings.size(message)
            held[f"{group.hold}"] = held.get(f"{group.hold}", 0) + tokens
            if group.hold is Hold.RECENT and tokens > largest_tokens:
                largest, largest_tokens = message.message_id, tokens
    floor = {"system": 0, "conversation": 0}
    for message in remaining:
        source = "system" if message.role is SYSTEM else "conversation"
        floor[source] += count_tokens([message], counter)
    if budget:
        for source, entry in budget.entries.items():
            if source is not InstructionSource.CONVERSATION:
                floor[source.value] = entry.total_tokens()
        for item in takings.items:
            if item.source is not InstructionSource.CONVERSATION:
                floor[item.source.value] -= item.tokens_freed
    return Shortfall(missing, floor, held, largest, largest_tokens)


def cache_impact(
    before: Sequence[Message], after: Sequence[Message], counter: TokenCounter = DEFAULT_COUNTER
) -> CacheImpact:
    """Where two histories part, and what the next request has to write anew."""
    shared = 0
    for old, new in zip(before, after, strict=False):
        if old is not new and old != new:
            break
        shared += 1
    changed = shared < max(len(before), len(after))
    return CacheImpact(
        first_changed=shared if changed else None,
        prefix_tokens=count_tokens(after[:shared], counter),
        rewritten_tokens=count_tokens(after[shared:], counter),
    )
