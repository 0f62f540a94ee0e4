"""What the tool calls of a conversation did: to which file, with which outcome."""

import fnmatch
import functools
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

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
        paths: The files that it is about, as far as they are known: one, unless a patch has more.
        whole_file: Whether it shows all of that file.
        signature: The same for calls that ask for the same.
        attempt: The same for calls that try the same, perhaps in another way.
        failed: Whether it went wrong.
        is_intact: Whether the result is still as it came: nothing of it was cleared.
    """

    group: Group
    call: FunctionCall
    call_at: tuple[str, int]
    result: ToolResult
    result_at: tuple[str, int]
    kind: Kind
    paths: tuple[str, ...]
    whole_file: bool
    signature: tuple[str, str]
    attempt: tuple[str, ...]
    failed: bool
    is_intact: bool

    @property
    def text(self) -> str:
        """The result as the model sees it."""
        return as_text(self.result.result)


def find_tool_uses(groups: Iterable[Group], names: ToolNames) -> list[ToolUse]:
    """The tool uses of a conversation, oldest first."""
    # A conversation has few tools and many calls, and a name is tried against dozens of patterns.
    kind_of_name = functools.cache(functools.partial(_kind_of_name, names))
    return [
        use for group in groups if group.is_call for use in _uses_in(group, names, kind_of_name)
    ]


def _uses_in(
    group: Group, names: ToolNames, kind_of_name: Callable[[str], Kind]
) -> Iterator[ToolUse]:
    waiting: dict[tuple[str | None, str], list[tuple[FunctionCall, tuple[str, int]]]] = {}
    for message in group.messages:
        for index, part in enumerate(message.parts):
            place = (message.message_id, index)
            if call := part.function_call:
                waiting.setdefault(_pairing_key(call.id, call.name), []).append((call, place))
            elif (result := part.function_response) and (
                calls := waiting.get(_pairing_key(result.call_id, result.name))
            ):
                yield _use(group, *calls.pop(0), result, place, names, kind_of_name)


def _pairing_key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def _use(
    group: Group,
    call: FunctionCall,
    call_at: tuple[str, int],
    result: ToolResult,
    result_at: tuple[str, int],
    names: ToolNames,
    kind_of_name: Callable[[str], Kind],
) -> ToolUse:
    arguments = call.args if isinstance(call.args, dict) else {}
    kind = _kind_of(call.name, arguments, kind_of_name)
    kind, paths, whole_file = _what_is_done(kind, arguments, names)
    signature = (call.name, json.dumps(arguments, sort_keys=True, default=str))
    attempt: tuple[str, ...] = signature
    if kind in (Kind.READ, Kind.EDIT):
        attempt = (call.name, kind, *paths)
    elif kind is Kind.SHELL:
        attempt = (call.name, *_what_is_tried(_command_in(arguments)))
    text = as_text(result.result)
    return ToolUse(
        group, call, call_at, result, result_at, kind, paths, whole_file, signature, attempt,
        failed=result.is_error or _looks_failed(text),
        is_intact=not _CLEARED.search(text),
    )  # fmt: skip


def strings_in(value: Any) -> Iterator[str]:
    """All texts in a call's arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)


# --- what a tool does ---


class _Deed(NamedTuple):
    kind: Kind
    paths: tuple[str, ...] = ()
    whole_file: bool = False


def _what_is_done(kind: Kind, arguments: dict[str, Any], names: ToolNames) -> _Deed:
    """What a call does, to which files.

    Names alone can mislead: who reads or edits a file has to say which, and who runs a command has
    to give one. All else is some other tool.
    """
    if kind is Kind.SHELL:
        return _done_by(_command_in(arguments))
    paths = _paths_in(arguments, names)
    if kind is Kind.EDIT and not paths:
        paths = _patched_files("\n".join(strings_in(arguments)))
    if kind in (Kind.READ, Kind.EDIT) and not paths:
        return _Deed(Kind.OTHER)
    return _Deed(kind, paths, kind is Kind.READ and not _asks_for_a_part(arguments, names))


def _kind_of(name: str, arguments: dict[str, Any], kind_of_name: Callable[[str], Kind]) -> Kind:
    """What a tool does, by its name; of tools that do several things, by what they are told."""
    known = kind_of_name(name)
    if known is Kind.SHELL:
        return known
    command = arguments.get("command")
    told = kind_of_name(command) if isinstance(command, str) else Kind.OTHER
    return known if told is Kind.OTHER else told


def _kind_of_name(names: ToolNames, name: str) -> Kind:
    name = name.lower()
    short = name.rpartition("__")[2]  # as in mcp__server__tool
    patterns = {
        Kind.READ: names.read,
        Kind.EDIT: names.edit,
        Kind.SEARCH: names.search,
        Kind.SHELL: names.shell,
    }
    for kind, those in patterns.items():
        for pattern in map(str.lower, those):
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(short, pattern):
                return kind
    return Kind.OTHER


_PART_ARGUMENTS: Final = re.compile(r"offset|limit|line|range|start|end|pages?$", re.IGNORECASE)


def _asks_for_a_part(arguments: dict[str, Any], names: ToolNames) -> bool:
    return any(
        value not in (None, -1)
        and name not in names.path_arguments
        and _PART_ARGUMENTS.search(name)
        for name, value in arguments.items()
    )


def _paths_in(arguments: dict[str, Any], names: ToolNames) -> tuple[str, ...]:
    for name in names.path_arguments:
        path = arguments.get(name)
        if isinstance(path, str) and path:
            return (_plain(path),)
    return ()


_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?(?!/dev/null))([^\t\r\n]+)",
    re.MULTILINE,
)


def _patched_files(patch: str) -> tuple[str, ...]:
    return tuple(map(_plain, _PATCHED.findall(patch)))


def _plain(path: str) -> str:
    return path.removeprefix("file://").removeprefix("./")


# --- shell commands ---

_SHELLS: Final = frozenset({"bash", "sh", "zsh"})
_SHOWS_ALL: Final = frozenset({"cat", "nl", "bat", "type"})
_SHOWS_PART: Final = frozenset({"head", "tail", "sed"})
_SHOWS: Final = _SHOWS_ALL | _SHOWS_PART
_QUOTES: Final = frozenset("\"'\\")
_MORE_THAN_ONE_COMMAND: Final = re.compile(r"[|;&<>`$]|\n\s*\S")
_GO_THERE: Final = re.compile(r"\A\s*cd\s+[^\s;&|]+\s*(?:&&|;)\s*")
_LONGEST_COMMAND: Final = 4_000
"""Characters: nothing that long just shows a file, and taking it apart would take its time."""
_WORDS_OF_A_TRY: Final = 3
"""So many words say what a command is about: npm run build, python -m pytest."""


def _command_in(arguments: dict[str, Any]) -> str:
    for name in ("command", "cmd", "script", "code"):
        command = arguments.get(name)
        if isinstance(command, list):
            words = [str(each) for each in command]
            if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS:  # bash -lc "…"
                return words[2]
            return shlex.join(words)
        if isinstance(command, str):
            return command
    return ""


def _done_by(command: str) -> _Deed:
    """What a command does: most are just commands, but some show a file or apply a patch."""
    if not command.strip():
        return _Deed(Kind.OTHER)
    if command.lstrip().startswith("apply_patch") and (paths := _patched_files(command)):
        return _Deed(Kind.EDIT, paths)
    if len(command) > _LONGEST_COMMAND or _MORE_THAN_ONE_COMMAND.search(command.strip()):
        return _Deed(Kind.SHELL)
    first_word = command.split(maxsplit=1)[0]
    if first_word not in _SHOWS and _QUOTES.isdisjoint(first_word):
        return _Deed(Kind.SHELL)  # most are like this, and taking them apart takes its time
    try:
        program, *rest = shlex.split(command) or [""]
    except ValueError:
        return _Deed(Kind.SHELL)
    options = [word for word in rest if word.startswith("-")]
    paths = tuple(_plain(word) for word in rest if not word.startswith("-"))
    if program in _SHOWS_ALL and len(paths) == 1:
        return _Deed(Kind.READ, paths, whole_file=True)
    if program == "sed" and options != ["-n"]:  # it edits, or shows something else
        return _Deed(Kind.SHELL)
    if program in _SHOWS_PART and paths:
        return _Deed(Kind.READ, paths[-1:])
    return _Deed(Kind.SHELL)


def _what_is_tried(command: str) -> list[str]:
    """The words that a command has in common with another try of the same; of a script, all."""
    command = _GO_THERE.sub("", command, count=1).strip()
    if "\n" in command:
        return [command]
    words = command.split()[:_WORDS_OF_A_TRY]
    while words[1:] and words[-1].startswith("-"):
        words.pop()
    return words


_CLEARED: Final = re.compile(r"\[[0-9]+ characters cleared: ")
_FAILURE: Final = re.compile(
    r"\s*(?:<tool_use_error>|\[[0-9]+ characters cleared: this attempt failed|"
    r"error\b|traceback \(most recent call last\)|fatal:|"
    r"exit code:? [1-9]|[^\n]{0,80}(?:command not found|no such file or directory))",
    re.IGNORECASE,
)


def _looks_failed(text: str) -> bool:
    return _FAILURE.match(text[:400]) is not None
