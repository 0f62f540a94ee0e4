"""The floor: what no collection can remove from a request.

If the floor alone is larger than the window, no strategy can help. The error then has to name what
is in the way, and the call that helps.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaato_gc.budget import InstructionBudget
from jaato_gc.collecting.protection import fixed_groups
from jaato_gc.history import Group, Hold
from jaato_gc.messages import SYSTEM, Message
from jaato_gc.policies import GCPolicy, InstructionSource
from jaato_gc.tokens import TokenCounter, count_tokens, message_tokens

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
        elsewhere: Tokens outside of the history, by source, and the correction by usage:
            ``unbooked`` tokens, and how much the provider counts more or less.
        can_fit: Whether the request fits if everything else is removed.
        recent: The messages that are protected as recent or PRESERVABLE, largest first.
    """

    messages: list[FixedMessage]
    elsewhere: dict[str, int]
    can_fit: bool
    recent: list[FixedMessage]

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        groups: Sequence[Group],
        budget: InstructionBudget,
        can_fit: bool,
    ) -> "Floor":
        """Returns the floor of a history, from its groups with their holds."""
        counter = budget.counter
        fixed = _fixed_messages(groups, counter, budget.pinned_message_ids)
        elsewhere = {
            source.value: entry.total_tokens()
            for source, entry in budget.entries.items()
            if source not in (InstructionSource.CONVERSATION, InstructionSource.SYSTEM)
            and entry.total_tokens()
        }
        counted = count_tokens(history, counter)
        prompts = budget.counted_tokens() - counted - sum(elsewhere.values())
        if prompts > 0:  # system prompts that the host booked without a message
            elsewhere["system"] = prompts
        floor = sum(message.tokens for message in fixed) + sum(elsewhere.values())
        if budget.unbooked_tokens:
            elsewhere["unbooked"] = budget.unbooked_tokens
        if correction := int(budget.ratio * floor) - floor:
            elsewhere["correction"] = correction
        return cls(fixed, elsewhere, can_fit, _recent_messages(groups, counter, fixed))

    @property
    def by_source(self) -> dict[str, int]:
        """The tokens by source."""
        found = {"conversation": 0, **self.elsewhere}
        for fixed in self.messages:
            source = "system" if fixed.message.role is SYSTEM else "conversation"
            found[source] = found.get(source, 0) + fixed.tokens
        return found

    def __str__(self) -> str:
        named = _largest(self.messages)
        named += [f"{source} ({tokens:,})" for source, tokens in self.elsewhere.items()]
        total = sum(self.by_source.values())
        return f"Fixed are {total:,}: {', '.join(named) or 'nothing'}. {self._remedy()}"

    @property
    def recent_text(self) -> str:
        """What is in the way if core may not remove recent content."""
        fixed, recent = sum(self.by_source.values()), sum(message.tokens for message in self.recent)
        named = ", ".join(_largest(self.recent)) or "nothing"
        return (
            f"Fixed are {fixed:,}, and recent or PRESERVABLE are {recent:,}: {named}. Create the "
            "session with on_overflow='relax', or lower preserve_recent_turns or "
            "preserve_recent_groups"
        )

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


def _largest(messages: Sequence[FixedMessage]) -> list[str]:
    """Returns the names of the largest messages, and how many more there are."""
    named = list(map(str, messages[:LARGEST_NAMED]))
    if rest := messages[LARGEST_NAMED:]:
        named.append(f"{len(rest)} more ({sum(message.tokens for message in rest):,})")
    return named


def _fixed_messages(
    groups: Sequence[Group], counter: TokenCounter, pins: Collection[str]
) -> list[FixedMessage]:
    """Returns the messages that no collection may remove, largest first."""
    fixed: list[FixedMessage] = []
    for group in fixed_groups(groups):
        why = group.hold if group.hold and group.hold.is_fixed else Hold.FIRST_USER
        pinned = [message.message_id for message in group.messages if message.message_id in pins]
        pinned_id = pinned[0] if pinned and why is Hold.PINNED else None
        fixed += [
            FixedMessage(message, message_tokens(message, counter), why.value, pinned_id)
            for message in group.messages
        ]
    return sorted(fixed, key=lambda message: -message.tokens)


def _recent_messages(
    groups: Sequence[Group], counter: TokenCounter, fixed: Sequence[FixedMessage]
) -> list[FixedMessage]:
    """Returns the messages that are protected and not fixed, largest first."""
    known = {message.message.message_id for message in fixed}
    recent = [
        FixedMessage(message, message_tokens(message, counter), (group.hold or group.policy).value)
        for group in groups
        if group.hold or group.policy is GCPolicy.PRESERVABLE
        for message in group.messages
        if message.message_id not in known
    ]
    return sorted(recent, key=lambda message: -message.tokens)
