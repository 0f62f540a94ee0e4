"""The largest messages of a context, with what each is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaato_gc import Message
from jaato_gc.plugin import Layout, TokenCounter, find_tool_uses, message_tokens
from jaato_gc_lab._subjects import UNNAMED, call_subject, part_tokens, subject_of

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
    subjects = {
        place: subject_of(use)
        for use in find_tool_uses(layout.groups)
        for place in (use.call_at, use.result_at)
    }
    sizes = [message_tokens(message, counter) for message in messages]
    order = sorted(range(len(messages)), key=lambda at: (-sizes[at], at))
    found = []
    for at in order[:MOST]:
        message = messages[at]
        tool, about, more = _described(message, subjects, counter)
        turn = turn_of.get(message.message_id)
        found.append(LargeMessage(at, turn, role_of(message), tool, about, more, sizes[at]))
    return found


def role_of(message: Message) -> str:
    """Returns the role of a message; ``tool`` for results, whose role depends on the provider."""
    return "tool" if message.is_tool_output else message.role.value


def _described(
    message: Message, subjects: Mapping[tuple[str, int], str], counter: TokenCounter
) -> tuple[str | None, str, int]:
    """Returns tool, subject and number of other calls or results of a message."""
    parts = [
        (part_tokens(part, counter), index, part)
        for index, part in enumerate(message.parts)
        if part.function_call or part.function_response
    ]
    if not parts:
        return None, _text_of(message), 0
    _, index, part = max(parts, key=lambda each: (each[0], -each[1]))
    named = part.function_call or part.function_response
    about = subjects.get((message.message_id, index))
    if about is None:
        about = call_subject(part.function_call) if part.function_call else ""
    return (named.name if named else "") or UNNAMED, about, len(parts) - 1


def _text_of(message: Message) -> str:
    thought = next((part.thought for part in message.parts if part.thought), "")
    attached = next((part.inline_data for part in message.parts if part.inline_data), None)
    return message.text or thought or (attached.mime_type if attached else "")
