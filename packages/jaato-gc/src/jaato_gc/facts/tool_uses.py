"""Classifies the tool calls of a conversation: kind of tool, files, and success.

An old result is obsolete if its file was read again or edited, or its command was repeated. Nothing
in a conversation says what a tool does, so names and arguments of its calls have to.
"""

import fnmatch
import functools
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from jaato_gc.history import Group
from jaato_gc.messages import FunctionCall, ToolResult
from jaato_gc.tokens import as_text


class ToolKind(StrEnum):
    """The kind of a tool, which decides how its output is collected."""

    READ = "read"
    """Shows a file or a part of it."""
    EDIT = "edit"
    """Changes a file."""
    SEARCH = "search"
    """Lists or finds something."""
    SHELL = "shell"
    """Runs a command."""
    OTHER = "other"
    """Any other tool."""


def _words(text: str) -> Any:
    """Returns a field whose default is a list of words."""
    return Field(default_factory=text.split)


class ToolNames(BaseModel):
    """How the tools of an agent are recognised: by patterns of their names, ignoring case.

    For a tool with several commands, such as an editor, the ``command`` argument counts before its
    name; for ``mcp__server__tool``, the last part counts too. A call that shows or changes a file
    has to name the file, and a call that runs a command has to give it. For all other tools, only a
    repeated call with the same arguments counts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    read: list[str] = _words("read* view* cat open* get_file* notebookread *_read_file")
    """Tools that show a file."""
    edit: list[str] = _words(
        "edit* write* multiedit multi_edit apply_* patch* *_patch replace* str_replace* create* "
        "insert* append* update_file* notebookedit undo_edit *_write_file"
    )
    """Tools that change a file."""
    search: list[str] = _words("ls list* glob* grep* search* find* tree *_search")
    """Tools that list or find something."""
    shell: list[str] = _words(
        "bash* sh shell* *_shell *_bash exec* *.exec run run_command* run_shell* *terminal* "
        "*_command *_cmd powershell*"
    )
    """Tools that run a command."""
    path_arguments: list[str] = _words(
        "file_path path filename file notebook_path target_file absolute_path filepath uri"
    )
    """Arguments that name the file; the first one in a call counts."""

    @functools.cached_property
    def _patterns(self) -> list[tuple[ToolKind, re.Pattern[str]]]:
        kinds = (ToolKind.READ, ToolKind.EDIT, ToolKind.SEARCH, ToolKind.SHELL)
        return [
            (kind, re.compile("|".join(map(fnmatch.translate, patterns)), re.IGNORECASE))
            for kind in kinds
            if (patterns := getattr(self, kind))  # each kind has a field of its name
        ]

    def _kind_named(self, name: str) -> ToolKind:
        short = name.rpartition("__")[2]  # "tool" of mcp__server__tool
        for kind, pattern in self._patterns:
            if pattern.match(name) or pattern.match(short):
                return kind
        return ToolKind.OTHER


@dataclass(slots=True, eq=False)
class ToolUse:
    """A tool call and its result.

    Args:
        group: The exchange that contains the call.
        call: The call.
        call_at: The id of the message with the call, and the index of its part.
        result: The result.
        result_at: The id of the message with the result, and the index of its part.
        kind: The kind of the tool.
        paths: The files that the call reads or edits, if known. Only a patch can have several.
        whole_file: Whether the result shows the whole file.
        signature: Equal for calls of the same tool with the same arguments.
        attempt: Equal for calls with the same goal, such as two runs of the same test command.
        failed: Whether the call failed.
        is_intact: Whether no part of the result has been cleared.
    """

    group: Group
    call: FunctionCall
    call_at: tuple[str, int]
    result: ToolResult
    result_at: tuple[str, int]
    kind: ToolKind
    paths: tuple[str, ...]
    whole_file: bool
    signature: tuple[str, str]
    attempt: tuple[str, ...]
    failed: bool
    is_intact: bool

    @property
    def command(self) -> str:
        """The command of a shell call; empty for other tools."""
        return _command_in(self.call.args) if isinstance(self.call.args, dict) else ""

    @property
    def text(self) -> str:
        """The result as text."""
        return as_text(self.result.result)


_usual_names = functools.cache(ToolNames)  # making one compiles its patterns


def find_tool_uses(groups: Iterable[Group], names: ToolNames | None = None) -> list[ToolUse]:
    """Returns the tool uses of a conversation, oldest first."""
    names = names or _usual_names()
    return [
        _use(group, exchange, names)
        for group in groups
        if group.is_call
        for exchange in _exchanges_in(group)
    ]


_Place = tuple[str, int]
_Exchange = tuple[FunctionCall, _Place, ToolResult, _Place]


def _exchanges_in(group: Group) -> Iterator[_Exchange]:
    pending: dict[tuple[str | None, str], list[tuple[FunctionCall, _Place]]] = {}
    for message in group.messages:
        for index, part in enumerate(message.parts):
            place = (message.message_id, index)
            if call := part.function_call:
                pending.setdefault(_pairing_key(call.id, call.name), []).append((call, place))
            elif (result := part.function_response) and (
                calls := pending.get(_pairing_key(result.call_id, result.name))
            ):
                yield *calls.pop(0), result, place


def _pairing_key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def _use(group: Group, exchange: _Exchange, names: ToolNames) -> ToolUse:
    call, _, result, _ = exchange
    arguments = call.args if isinstance(call.args, dict) else {}
    access = _file_access(call.name, arguments, names)
    signature = (call.name, json.dumps(arguments, sort_keys=True, default=str))
    attempt: tuple[str, ...] = signature
    if access.kind in (ToolKind.READ, ToolKind.EDIT):
        attempt = (call.name, access.kind, *access.paths)
    elif access.kind is ToolKind.SHELL:
        attempt = (call.name, *_goal_of(_command_in(arguments)))
    text = as_text(result.result)
    failed = result.is_error or _FAILURE.match(text[:400]) is not None
    is_intact = not _CLEARED.search(text)
    return ToolUse(group, *exchange, *access, signature, attempt, failed, is_intact)


def places_by_touch(groups: Sequence[Group], uses: Iterable[ToolUse]) -> list[float]:
    """Returns the place of each group if content that is still worked with counts as newer.

    A group about a file is half-way between its own place and the last touch of that file. All
    others keep their places.

    Args:
        groups: The groups of a history, oldest first.
        uses: Their tool uses.
    """
    place_of = {id(group): place for place, group in enumerate(groups)}
    last_touch: dict[str, int] = {}
    files: dict[int, set[str]] = {}
    for use in uses:
        place = place_of[id(use.group)]
        files.setdefault(place, set()).update(use.paths)
        last_touch.update(dict.fromkeys(use.paths, place))
    return [
        (place + max([place, *(last_touch[path] for path in files.get(place, ()))])) / 2
        for place in range(len(groups))
    ]


def strings_in(value: Any) -> Iterator[str]:
    """Yields all strings in the arguments of a call, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for nested in value.values():
            yield from strings_in(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from strings_in(nested)


# --- the kind of a tool ---


class _FileAccess(NamedTuple):
    kind: ToolKind
    paths: tuple[str, ...] = ()
    whole_file: bool = False


def _file_access(name: str, arguments: dict[str, Any], names: ToolNames) -> _FileAccess:
    """Returns the kind of a call and the files that it accesses.

    A name alone can be misleading: a read or an edit without a path, and a shell without a
    command, are tools of kind ``OTHER``.
    """
    kind = names._kind_named(name)
    operation = arguments.get("command")  # of an editor that is one tool for several operations
    if kind is not ToolKind.SHELL and isinstance(operation, str):
        by_operation = names._kind_named(operation)
        kind = kind if by_operation is ToolKind.OTHER else by_operation
    if kind is ToolKind.SHELL:
        return _file_access_of_command(_command_in(arguments))
    paths = _paths_in(arguments, names)
    if kind is ToolKind.EDIT and not paths:
        paths = _patched_files("\n".join(strings_in(arguments)))
    if kind in (ToolKind.READ, ToolKind.EDIT) and not paths:
        return _FileAccess(ToolKind.OTHER)
    return _FileAccess(kind, paths, kind is ToolKind.READ and not _reads_a_part(arguments, names))


_PART_ARGUMENTS: Final = re.compile(r"offset|limit|line|range|start|end|pages?$", re.IGNORECASE)


def _reads_a_part(arguments: dict[str, Any], names: ToolNames) -> bool:
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
            return (_normalize(path),)
    return ()


_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?(?!/dev/null))([^\t\r\n]+)",
    re.MULTILINE,
)


def _patched_files(patch: str) -> tuple[str, ...]:
    return tuple(map(_normalize, _PATCHED.findall(patch)))


def _normalize(path: str) -> str:
    return path.removeprefix("file://").removeprefix("./")


# --- shell commands ---

_SHELLS: Final = frozenset({"bash", "sh", "zsh"})
_SHOWS_ALL: Final = frozenset({"cat", "nl", "bat", "type"})
_SHOWS_PART: Final = frozenset({"head", "tail", "sed"})
_SHOWS: Final = _SHOWS_ALL | _SHOWS_PART
_QUOTES: Final = frozenset("\"'\\")
_COMPOUND_COMMAND: Final = re.compile(r"[|;&<>`$]|\n\s*\S")
_CHANGE_DIRECTORY: Final = re.compile(r"\A\s*cd\s+[^\s;&|]+\s*(?:&&|;)\s*")
_MAX_COMMAND_LENGTH: Final = 4_000
"""Longest command, in characters, that is parsed. Longer ones do more than show a file."""
_GOAL_WORDS: Final = 3
"""The number of words that identify a command: npm run build, python -m pytest."""


def _command_in(arguments: dict[str, Any]) -> str:
    for name in ("command", "cmd", "script", "code"):
        command = arguments.get(name)
        if isinstance(command, list):
            words = [str(word) for word in command]
            if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS:  # bash -lc "…"
                return words[2]
            return shlex.join(words)
        if isinstance(command, str):
            return command
    return ""


def _file_access_of_command(command: str) -> _FileAccess:
    """Returns the kind of a shell command and the files that it shows or patches, if any."""
    if not command.strip():
        return _FileAccess(ToolKind.OTHER)
    if command.lstrip().startswith("apply_patch") and (paths := _patched_files(command)):
        return _FileAccess(ToolKind.EDIT, paths)
    if len(command) > _MAX_COMMAND_LENGTH or _COMPOUND_COMMAND.search(command.strip()):
        return _FileAccess(ToolKind.SHELL)
    first_word = command.split(maxsplit=1)[0]
    if first_word not in _SHOWS and _QUOTES.isdisjoint(first_word):
        return _FileAccess(ToolKind.SHELL)  # the common case: avoids the slow shlex.split
    try:
        program, *rest = shlex.split(command) or [""]
    except ValueError:
        return _FileAccess(ToolKind.SHELL)
    options = [word for word in rest if word.startswith("-")]
    paths = tuple(_normalize(word) for word in rest if not word.startswith("-"))
    if program in _SHOWS_ALL and len(paths) == 1:
        return _FileAccess(ToolKind.READ, paths, whole_file=True)
    if program == "sed" and options != ["-n"]:  # it edits the file or transforms its text
        return _FileAccess(ToolKind.SHELL)
    if program in _SHOWS_PART and paths:
        return _FileAccess(ToolKind.READ, paths[-1:])
    return _FileAccess(ToolKind.SHELL)


def _goal_of(command: str) -> list[str]:
    """Returns the first words of a command, which identify its goal; a script as a whole."""
    command = _CHANGE_DIRECTORY.sub("", command, count=1).strip()
    if "\n" in command:
        return [command]
    words = command.split()[:_GOAL_WORDS]
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
