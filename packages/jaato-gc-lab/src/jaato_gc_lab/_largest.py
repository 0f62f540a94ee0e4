"""The largest messages of a context, with what each is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaato_gc import Message
from jaato_gc.plugin import Layout, TokenCounter, message_tokens
from jaato_gc_lab._subjects import Subjects, role_of

MOST = 10
"""Number of messages to list."""


@dataclass(frozen=True, slots=True)
class LargeMessage:
    """One of the largest messages.

    Args:
        position: Position of the message, starting at 0.
        turn: Number of its turn, starting at 0 as in removal lists; ``None`` if it is in no turn.
        role: Role of the message.
        tool: Name of the tool that is called or that answers; ``None`` for other messages.
        about: Subject of the call, such as a path or a command; for other messages the text.
        more: Number of other calls or results in the message. They are smaller.
        tokens: Tokens of the message.
    """

    position: int
    turn: int | None
    role: str
    tool: str | None
    about: str
    more: int
    tokens: int


def largest_messages(
    messages: Sequence[Message], layout: Layout, counter: TokenCounter
) -> list[LargeMessage]:
    """Returns the largest messages of a history, largest first."""
    turn_of = {each.message_id: turn.index for turn in layout.turns for each in turn.messages}
    subjects = Subjects(layout, counter)
    sizes = [message_tokens(message, counter) for message in messages]
    order = sorted(range(len(messages)), key=lambda at: (-sizes[at], at))
    found = []
    for at in order[:MOST]:
        message = messages[at]
        turn, subject = turn_of.get(message.message_id), subjects.of(message)
        found.append(LargeMessage(at, turn, role_of(message), *subject, sizes[at]))
    return found
