"""What stands in a context twice: results that came again, and reads that a later one repeats."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaato_gc import (
    FunctionCall,
    Message,
    Part,
    Role,
    TokenCounter,
    ToolResult,
    as_text,
    message_tokens,
)
from jaato_gc_lab._rereads import path_in, shows_a_file
from jaato_gc_marksweep import ToolNames

SAME_TEXT = 200
"""Results that are shorter are alike by chance."""
DUPLICATE = "duplicate"
SUPERSEDED = "superseded"

_TOOLS = ToolNames()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A result that a later one makes needless.

    Args:
        kind: ``duplicate``: the same text came again later. ``superseded``: the same call was made
            again later, or the whole file was read.
        position: Position of its message, from 0 on.
        tool: The tool.
        about: What it was asked for, such as a path.
        tokens: How many tokens it has.
    """

    kind: str
    position: int
    tool: str
    about: str
    tokens: int


def find_repeats(messages: Sequence[Message], counter: TokenCounter) -> list[Repeat]:
    """The results that a later one makes needless, oldest first."""
    texts: set[str] = set()
    asked: set[tuple[str, str]] = set()
    read: set[str] = set()
    found = []
    for position, part_index, call, result in reversed(list(_answered(messages))):
        text = as_text(result.result)
        signature = (call.name, json.dumps(call.args, sort_keys=True, default=str))
        path = path_in(call) if shows_a_file(call) else None
        kind = None
        if signature in asked or (path is not None and path in read):
            kind = SUPERSEDED
        elif len(text) >= SAME_TEXT and text in texts:
            kind = DUPLICATE
        if kind is not None:
            tokens = part_tokens(messages[position].parts[part_index], counter)
            found.append(Repeat(kind, position, call.name, what_it_is_about(call), tokens))
        if result.is_error:  # takes the place of nothing
            continue
        texts.add(text)
        asked.add(signature)
        if path is not None and _reads_all(call):
            read.add(path)
    return found[::-1]


def part_tokens(part: Part, counter: TokenCounter) -> int:
    """Tokens of one part, without the frame of its message."""
    frame = message_tokens(Message(Role.MODEL, [], message_id="-"), counter)
    return message_tokens(Message(Role.MODEL, [part], message_id="-"), counter) - frame


def what_it_is_about(call: FunctionCall) -> str:
    """The argument of a call that says most: a path, else the first text."""
    if not isinstance(call.args, Mapping):
        return ""
    texts = [value for value in call.args.values() if isinstance(value, str)]
    return path_in(call) or (texts[0] if texts else "")


def _answered(
    messages: Sequence[Message],
) -> Iterator[tuple[int, int, FunctionCall, ToolResult]]:
    """Every result with its call: position of the message, and of the part in it."""
    waiting: dict[tuple[str | None, str], FunctionCall] = {}
    for position, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if call := part.function_call:
                waiting[_key(call.id, call.name)] = call
            elif result := part.function_response:
                asked = waiting.pop(_key(result.call_id, result.name), None)
                if asked is not None:
                    yield position, index, asked, result


def _key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def _reads_all(call: FunctionCall) -> bool:
    """Whether it names a file and nothing else: no range, no offset."""
    return all(name in _TOOLS.path_arguments for name in call.args)
