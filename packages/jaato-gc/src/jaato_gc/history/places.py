"""Messages that keep their place, and those that lost it.

Some providers accept a message only between the one before it and the answer after it, such as a
system message in the middle of a conversation. Core does not know these rules. It leaves both
neighbours of such a message where they are, or removes the message too. Before the first user
message there is no place to keep. User messages have none: a request that had to go with its
neighbour could leave a history that begins with the model.
"""

from collections.abc import Sequence

from jaato_gc.messages import USER, Message


def has_place(message: Message) -> bool:
    """Returns whether a message keeps its place."""
    return message.keeps_place and message.role is not USER


def neighbours_of(history: Sequence[Message], position: int) -> tuple[str, ...]:
    """Returns the ids of the messages before and after the one at a position."""
    around = (*history[max(0, position - 1) : position], *history[position + 1 : position + 2])
    return tuple([message.message_id for message in around])


def neighbours_by_id(history: Sequence[Message]) -> dict[str, tuple[str, ...]]:
    """Returns the neighbours of each message that keeps its place."""
    begin = next((at for at, message in enumerate(history) if message.role is USER), len(history))
    return {
        history[position].message_id: neighbours_of(history, position)
        for position in range(begin, len(history))
        if has_place(history[position])
    }


def displaced(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    """Returns the messages of an edited history that keep their place and have lost it."""
    wanted = neighbours_by_id(before)
    return [
        message
        for position, message in enumerate(after if wanted else ())
        if message.keeps_place and message.message_id in wanted
        if neighbours_of(after, position) != wanted[message.message_id]
    ]


def without_displaced(before: Sequence[Message], after: Sequence[Message]) -> list[Message]:
    """Returns an edited history without the messages that lost their place."""
    left = list(after)
    while lost := set(map(id, displaced(before, left))):
        left = [message for message in left if id(message) not in lost]
    return left
