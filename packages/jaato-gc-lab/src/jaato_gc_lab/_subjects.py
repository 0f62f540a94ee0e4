"""The subjects of messages and tool calls: paths, commands and other texts that identify them."""

from collections.abc import Mapping
from typing import NamedTuple

from jaato_gc import FunctionCall, Message, Part, Role
from jaato_gc.plugin import Layout, TokenCounter, ToolKind, ToolUse, find_tool_uses, message_tokens
from jaato_gc_lab._measures.rereads import path_of

UNNAMED = "(unnamed)"
"""Name of a tool without one."""


class Subject(NamedTuple):
    """The subject of a message.

    Args:
        tool: Name of the tool that is called or that answers; ``None`` for other messages.
        about: Subject of the call, such as a path or a command; for other messages the text.
        more: Number of other calls or results in the message. They are smaller.
    """

    tool: str | None
    about: str
    more: int


class Subjects:
    """Finds the subjects of the messages of a history.

    Args:
        layout: The groups of the history, where the call of a result is looked up.
        counter: Token counter.
    """

    def __init__(self, layout: Layout, counter: TokenCounter) -> None:
        self._counter = counter
        self._uses = {
            place: subject_of(use)
            for use in find_tool_uses(layout.groups)
            for place in (use.call_at, use.result_at)
        }

    def of(self, message: Message) -> Subject:
        """Returns the subject of the largest call or result in a message, or else its text."""
        parts = [
            (part_tokens(part, self._counter), index, part)
            for index, part in enumerate(message.parts)
            if part.function_call or part.function_response
        ]
        if not parts:
            return Subject(None, _text_of(message), 0)
        _, index, part = max(parts, key=lambda each: (each[0], -each[1]))
        about = self._uses.get((message.message_id, index))
        if about is None:
            about = call_subject(part.function_call) if part.function_call else ""
        return Subject(tool_of(part), about, len(parts) - 1)


def subject_of(use: ToolUse) -> str:
    """Returns the command of a tool use, or else its paths, or else its first text argument."""
    is_command = use.command and all(path in use.command for path in use.paths)  # not only "view"
    if is_command and use.kind is not ToolKind.EDIT:
        return use.command
    return ", ".join(use.paths) or call_subject(use.call)


def call_subject(call: FunctionCall) -> str:
    """Returns the path argument of a call, or else its first text argument."""
    if not isinstance(call.args, Mapping):
        return ""
    texts = [value for value in call.args.values() if isinstance(value, str)]
    return path_of(call) or (texts[0] if texts else "")


def tool_of(part: Part) -> str:
    """Returns the name of the tool that a part calls or that answers in it."""
    named = part.function_call or part.function_response
    return (named.name if named else "") or UNNAMED


def role_of(message: Message) -> str:
    """Returns the role of a message; ``tool`` for results, whose role depends on the provider."""
    return "tool" if message.is_tool_output else message.role.value


def part_tokens(part: Part, counter: TokenCounter) -> int:
    """Returns the tokens of one part, without the overhead of its message."""
    frame = message_tokens(Message(Role.MODEL, [], message_id="-"), counter)
    return message_tokens(Message(Role.MODEL, [part], message_id="-"), counter) - frame


def _text_of(message: Message) -> str:
    thought = next((part.thought for part in message.parts if part.thought), "")
    attached = next((part.inline_data for part in message.parts if part.inline_data), None)
    return message.text or thought or (attached.mime_type if attached else "")
