"""The floor: what no collection can remove from a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.results import GCTriggerReason
from jaato_gc.collecting.triggers import ContextUsage
from jaato_gc.config import GCConfig
from jaato_gc.history import Group, Hold
from jaato_gc.messages import SYSTEM, USER, Message
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import count_tokens, message_tokens

LARGEST_NAMED = 5
"""Number of fixed messages that an error names."""


class FixedMessage(NamedTuple):
    """A message that stays in any case.

    Args:
        message: The message.
        tokens: Its size.
        why: Why it stays.
        pinned_id: The pinned message of its group, if a pin is the reason.
    """

    message: Message
    tokens: int
    why: str
    pinned_id: str | None = None

    def __str__(self) -> str:
        role, why = self.message.role, self.why.replace("_", " ")
        return f"{self.message.message_id!r} ({role}, {why}, {self.tokens:,})"


@dataclass(frozen=True)
class Floor:
    """What no collection can remove from a request.

    Args:
        messages: The fixed messages, largest first.
        elsewhere: Tokens outside of the history, by source, with the correction by usage.
        can_fit: Whether the request fits if everything else is removed.
    """

    messages: list[FixedMessage]
    elsewhere: dict[str, int]
    can_fit: bool

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget,
    ) -> "Floor":
        """Returns the floor of a history."""
        collection = Collection.of(history, context_usage, config, reason, budget)
        fixed = fixed_messages(collection)
        elsewhere = {
            source.value: entry.total_tokens()
            for source, entry in budget.entries.items()
            if source not in (InstructionSource.CONVERSATION, InstructionSource.SYSTEM)
            and entry.total_tokens()
        }
        counted = count_tokens(history, budget.counter)
        prompts = budget.counted_tokens() - counted - sum(elsewhere.values())
        if prompts > 0:  # system prompts that the host booked without a message
            elsewhere["system"] = prompts
        if budget.correction:
            elsewhere["correction"] = budget.correction
        return cls(fixed, elsewhere, can_fit(collection))

    @property
    def by_source(self) -> dict[str, int]:
        """The tokens by source."""
        found = {"conversation": 0, **self.elsewhere}
        for each in self.messages:
            source = "system" if each.message.role is SYSTEM else "conversation"
            found[source] = found.get(source, 0) + each.tokens
        return found

    def __str__(self) -> str:
        named = [str(each) for each in self.messages[:LARGEST_NAMED]]
        if rest := self.messages[LARGEST_NAMED:]:
            named.append(f"{len(rest)} more ({sum(each.tokens for each in rest):,})")
        named += [f"{source} ({tokens:,})" for source, tokens in self.elsewhere.items()]
        total = sum(self.by_source.values())
        return f"Fixed are {total:,}: {', '.join(named) or 'nothing'}. {self._remedy()}"

    def _remedy(self) -> str:
        largest = self.messages[0] if self.messages else None
        elsewhere = max(self.elsewhere.values(), default=0)
        if largest is None or largest.message.role is SYSTEM or elsewhere > largest.tokens:
            return "Use a larger window, or shorten the system prompt and the tools"
        if largest.pinned_id:
            return f"Call session.unpin({largest.pinned_id!r})"
        message_id = largest.message.message_id
        force = ", force=True" if largest.why == Hold.LOCKED else ""
        return (
            f"Call session.replace({message_id!r}, a shorter message{force}), "
            "or use a larger window"
        )


def fixed_groups(collection: Collection) -> list[Group]:
    """Returns the groups that no collection may remove.

    If the first of them is not a user message, the request of its turn is among them.
    """
    fixed: list[Group] = []
    request, is_first = None, True
    for group in collection.groups:
        if group.opens_turn:
            request = group
        if not (group.hold and group.hold.is_fixed):
            continue
        if is_first and request and not group.is_system and not is_user(group):
            fixed.append(request)
        is_first = is_first and group.is_system
        fixed.append(group)
    return fixed


def fixed_messages(collection: Collection) -> list[FixedMessage]:
    """Returns the messages that no collection may remove, largest first."""
    counter = collection.counter
    fixed: list[FixedMessage] = []
    pins = collection.budget.pinned_message_ids if collection.budget else set()
    for group in fixed_groups(collection):
        why = group.hold if group.hold and group.hold.is_fixed else Hold.FIRST_USER
        pinned = [each.message_id for each in group.messages if each.message_id in pins]
        pinned_id = pinned[0] if pinned and why is Hold.PINNED else None
        fixed += [
            FixedMessage(message, message_tokens(message, counter), why.value, pinned_id)
            for message in group.messages
        ]
    return sorted(fixed, key=lambda each: -each.tokens)


def can_fit(collection: Collection) -> bool:
    """Returns whether the request fits if everything is removed that is not fixed."""
    if not collection.goal.tokens_to_fit:
        return True
    fixed = sum(each.tokens for each in fixed_messages(collection))
    movable = count_tokens(collection.history, collection.counter) - fixed
    return movable + _collectable_tokens(collection) >= collection.goal.tokens_to_fit


def _collectable_tokens(collection: Collection) -> int:
    """Returns the tokens outside of the history that the host can drop for a strategy."""
    budget = collection.budget
    return sum(
        each.tokens
        for source in (budget.collectable_sources if budget else ())
        if budget and source is not InstructionSource.CONVERSATION and source in budget.entries
        for each in budget.entries[source].walk()
        if each.binding_policy() is not GCPolicy.LOCKED
    )


def is_user(group: Group) -> bool:
    """Returns whether a group is a user message."""
    message = group.messages[0]
    return message.role is USER and not message.is_tool_output
