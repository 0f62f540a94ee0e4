"""Finds redundant tool results: repeated texts, repeated calls and repeated file reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult
from jaato_gc.plugin import TokenCounter, as_text, message_tokens
from jaato_gc_lab._measures.rereads import path_of, reads_file
from jaato_gc_marksweep import ToolNames

MIN_DUPLICATE_LENGTH = 200
"""Minimum characters of a duplicate. Shorter results are often equal by coincidence."""
DUPLICATE = "duplicate"
SUPERSEDED = "superseded"

_TOOLS = ToolNames()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A tool result that a later result makes redundant.

    Args:
        kind: ``duplicate`` if a later result has the same text; ``superseded`` if a later call is
            the same or reads the whole file.
        position: Position of the message, starting at 0.
        tool: Name of the tool.
        about: Subject of the call, such as a path.
        tokens: Tokens of the result.
    """

    kind: str
    position: int
    tool: str
    about: str
    tokens: int


def find_repeats(messages: Sequence[Message], counter: TokenCounter) -> list[Repeat]:
    """Returns the redundant tool results, oldest first."""
    texts: set[str] = set()
    signatures: set[tuple[str, str]] = set()
    whole_files: set[str] = set()
    found = []
    for position, part_index, call, result in reversed(list(_answered_calls(messages))):
        text = as_text(result.result)
        signature = (call.name, json.dumps(call.args, sort_keys=True, default=str))
        path = path_of(call) if reads_file(call) else None
        kind = None
        if signature in signatures or (path is not None and path in whole_files):
            kind = SUPERSEDED
        elif len(text) >= MIN_DUPLICATE_LENGTH and text in texts:
            kind = DUPLICATE
        if kind is not None:
            tokens = part_tokens(messages[position].parts[part_index], counter)
            found.append(Repeat(kind, position, call.name, call_subject(call), tokens))
        if result.is_error:  # a failed call supersedes nothing
            continue
        texts.add(text)
        signatures.add(signature)
        if path is not None and _reads_whole_file(call):
            whole_files.add(path)
    return found[::-1]


def part_tokens(part: Part, counter: TokenCounter) -> int:
    """Returns the tokens of one part, without the overhead of its message."""
    frame = message_tokens(Message(Role.MODEL, [], message_id="-"), counter)
    return message_tokens(Message(Role.MODEL, [part], message_id="-"), counter) - frame


def call_subject(call: FunctionCall) -> str:
    """Returns the path argument of a call, or else its first text argument."""
    if not isinstance(call.args, Mapping):
        return ""
    texts = [value for value in call.args.values() if isinstance(value, str)]
    return path_of(call) or (texts[0] if texts else "")


def _answered_calls(
    messages: Sequence[Message],
) -> Iterator[tuple[int, int, FunctionCall, ToolResult]]:
    """Yields message position, part position, call and result of every answered call."""
    pending: dict[tuple[str | None, str], FunctionCall] = {}
    for position, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if call := part.function_call:
                pending[_key(call.id, call.name)] = call
            elif result := part.function_response:
                answered = pending.pop(_key(result.call_id, result.name), None)
                if answered is not None:
                    yield position, index, answered, result


def _key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def _reads_whole_file(call: FunctionCall) -> bool:
    """Returns whether a path is the only argument of a call, without a range or an offset."""
    return all(name in _TOOLS.path_arguments for name in call.args)
