"""The messages that a collection removes or shortens."""

from typing import NamedTuple

from jaato_gc import EstimateCounter, GCPlan
from jaato_gc.plugin import lay_out, message_tokens
from jaato_gc_lab._subjects import Subjects, role_of


class ChangedMessage(NamedTuple):
    """A message that a collection removes or shortens.

    Args:
        position: Position of the message, starting at 0.
        role: Role of the message.
        action: What the collection does with it.
        tokens: Tokens that this frees.
        tool: Name of the tool, as in `Subject`.
        about: Subject of the call, or the text, as in `Subject`.
        more: Number of other calls or results, as in `Subject`.
    """

    position: int
    role: str
    action: str
    tokens: int
    tool: str | None
    about: str
    more: int


def changed_messages(plan: GCPlan) -> list[ChangedMessage]:
    """Returns the messages that a plan changes, those that free the most tokens first."""
    counter = EstimateCounter()
    subjects = Subjects(lay_out(plan.before), counter)
    after = {message.message_id: message for message in plan.after}
    actions = {each: item.action for item in plan.result.removal_list for each in item.message_ids}
    found = []
    for position, message in enumerate(plan.before):
        now = after.get(message.message_id)
        if now is message:
            continue
        tokens = message_tokens(message, counter) - (message_tokens(now, counter) if now else 0)
        action = actions.get(message.message_id, "shorten" if now else "remove")
        subject = subjects.of(message)
        found.append(ChangedMessage(position, role_of(message), action, tokens, *subject))
    return sorted(found, key=lambda each: (-each.tokens, each.position))
