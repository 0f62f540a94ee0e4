"""The subjects of tool calls: paths, commands and other texts that say what a call is about."""

from collections.abc import Mapping

from jaato_gc import FunctionCall, Message, Part, Role
from jaato_gc.plugin import TokenCounter, ToolKind, ToolUse, message_tokens
from jaato_gc_lab._measures.rereads import path_of

UNNAMED = "(unnamed)"
"""Name of a tool without one."""


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


def part_tokens(part: Part, counter: TokenCounter) -> int:
    """Returns the tokens of one part, without the overhead of its message."""
    frame = message_tokens(Message(Role.MODEL, [], message_id="-"), counter)
    return message_tokens(Message(Role.MODEL, [part], message_id="-"), counter) - frame
