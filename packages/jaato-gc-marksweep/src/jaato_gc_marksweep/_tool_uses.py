"""What the tool calls of a conversation did: to which file, with which outcome."""

import fnmatch
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from jaato_gc import FunctionCall, Group, ToolResult, as_text
from jaato_gc_marksweep._settings import ToolNames


class Kind(StrEnum):
    """What a tool does, as far as it matters for what becomes of its output."""

    READ = "read"
    """Shows a file, or a part of it."""
    EDIT = "edit"
    """Changes a file."""
    SEARCH = "search"
    """Lists or finds something."""
    SHELL = "shell"
    """Runs a command."""
    OTHER = "other"


@dataclass(slots=True, eq=False)
class ToolUse:
    """One call and its result.

    Args:
        group: The exchange that it is part of.
        call: The call.
        call_at: Id of the message that holds the call, and the position of its part.
        result: The result.
        result_at: Where the result is, likewise.
        kind: What the tool does.
        path: The file that it is about, if that is known.
        whole_file: Whether it shows all of that file.
        signature: The same for calls that ask for the same.
        attempt: The same for calls that try the same, perhaps in another way.
        failed: Whether it went wrong.
    """

    group: Group
    call: FunctionCall
    call_at: tuple[str, int]
    result: ToolResult
    result_at: tuple[str, int]
    kind: Kind
    path: str | None
    whole_file: bool
    signature: tuple[str, str]
    attempt: tuple[str, str]
    failed: bool

    @property
    def text(self) -> str:
        """The result as the model sees it."""
        return as_text(self.result.result)


def find_tool_uses(groups: Iterable[Group], names: ToolNames) -> list[ToolUse]:
    """The tool uses of a conversation, oldest first."""
    return [use for group in groups if group.is_call for use in _uses_in(group, names)]


def _uses_in(group: Group, names: ToolNames) -> Iterator[ToolUse]:
    waiting: dict[tuple[str | None, str], list[tuple[FunctionCall, tuple[str, int]]]] = {}
    for message in group.messages:
        for index, part in enumerate(message.parts):
            place = (message.message_id, index)
            if call := part.function_call:
                waiting.setdefault(_pairing_key(call.id, call.name), []).append((call, place))
            elif (result := part.function_response) and (
                calls := waiting.get(_pairing_key(result.call_id, result.name))
            ):
                yield _use(group, *calls.pop(0), result, place, names)


def _pairing_key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def _use(
    group: Group,
    call: FunctionCall,
    call_at: tuple[str, int],
    result: ToolResult,
    result_at: tuple[str, int],
    names: ToolNames,
) -> ToolUse:
    arguments = call.args if isinstance(call.args, dict) else {}
    kind = kind_of(call.name, arguments, names)
    path = _path_in(arguments, names)
    whole_file = kind is Kind.READ and not _asks_for_a_part(arguments, names)
    signature = (call.name, json.dumps(arguments, sort_keys=True, default=str))
    attempt = (call.name, path or signature[1])
    if kind is Kind.SHELL:
        command = _command_in(arguments)
        attempt = (call.name, " ".join(command.split()[:2]))
        if shown := _file_shown_by(command):
            kind, path, whole_file = Kind.READ, *shown
    return ToolUse(
        group, call, call_at, result, result_at, kind, path, whole_file, signature, attempt,
        failed=result.is_error or _looks_failed(as_text(result.result)),
    )  # fmt: skip


# --- what a tool does ---


def kind_of(name: str, arguments: dict[str, Any], names: ToolNames) -> Kind:
    """What a tool does, by its name; of tools that do several things, by what they are told."""
    known = _kind_of_name(name.lower(), names)
    if known is Kind.SHELL:
        return known
    command = arguments.get("command")
    told = _kind_of_name(command.lower(), names) if isinstance(command, str) else Kind.OTHER
    return known if told is Kind.OTHER else told


def _kind_of_name(name: str, names: ToolNames) -> Kind:
    patterns = {
        Kind.READ: names.read,
        Kind.EDIT: names.edit,
        Kind.SEARCH: names.search,
        Kind.SHELL: names.shell,
    }
    for kind, those in patterns.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in those):
            return kind
    return Kind.OTHER


_PART_ARGUMENTS: Final = re.compile(r"offset|limit|line|range|start|end|pages?$", re.IGNORECASE)


def _asks_for_a_part(arguments: dict[str, Any], names: ToolNames) -> bool:
    return any(
        value is not None and name not in names.path_arguments and _PART_ARGUMENTS.search(name)
        for name, value in arguments.items()
    )


def _path_in(arguments: dict[str, Any], names: ToolNames) -> str | None:
    for name in names.path_arguments:
        path = arguments.get(name)
        if isinstance(path, str) and path:
            return _plain(path)
    return None


def _plain(path: str) -> str:
    return path.removeprefix("file://").removeprefix("./")


# --- shell commands ---

_SHOWS_ALL: Final = frozenset({"cat", "nl", "bat", "type"})
_SHOWS_PART: Final = frozenset({"head", "tail", "sed"})
_MORE_THAN_ONE_COMMAND: Final = re.compile(r"[|;&<>`$]|\n\s*\S")


def _command_in(arguments: dict[str, Any]) -> str:
    for name in ("command", "cmd", "script", "code"):
        command = arguments.get(name)
        if isinstance(command, list):
            return " ".join(map(str, command))
        if isinstance(command, str):
            return command
    return ""


def _file_shown_by(command: str) -> tuple[str, bool] | None:
    """The file that a simple command prints, and whether it prints all of it."""
    if _MORE_THAN_ONE_COMMAND.search(command.strip()):
        return None
    try:
        program, *rest = shlex.split(command) or [""]
    except ValueError:
        return None
    paths = [word for word in rest if not word.startswith("-")]
    if program in _SHOWS_ALL and len(paths) == 1:
        return _plain(paths[0]), True
    if program in _SHOWS_PART and paths:
        return _plain(paths[-1]), False
    return None


_FAILURE: Final = re.compile(
    r"\s*(?:<tool_use_error>|error\b|traceback \(most recent call last\)|fatal:|"
    r"exit code:? [1-9]|[^\n]{0,80}(?:command not found|no such file or directory))",
    re.IGNORECASE,
)


def _looks_failed(text: str) -> bool:
    return _FAILURE.match(text[:400]) is not None
