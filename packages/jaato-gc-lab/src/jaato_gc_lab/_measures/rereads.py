"""Counts files that an agent would have to read again because a collection removed them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from jaato_gc import FunctionCall, Message, Role
from jaato_gc.plugin import TokenCounter, message_tokens
from jaato_gc_lab._measures.edits import lines_in
from jaato_gc_lab._measures.texts import shown_texts
from jaato_gc_marksweep import ToolNames

_TOOLS = ToolNames()

Place = tuple[str, int]
"""Place of a result: the id of its message and the position of its part."""


class Rereads:
    """Tracks which files a context shows and counts files that are used after their removal.

    A call reads a file if its tool has a name such as ``read_file`` and its arguments contain a
    path. Its result is removed as soon as a line of it is no longer anywhere in the context: what
    a collection drops because a later message repeats it is still there. After all results of a
    file are removed, the next call with that path that does not read it, such as an edit, counts as
    one reread. Its size is that of the result that was removed last. A file counts once until a
    result shows it again. If the recording reads the file before it uses it, nothing counts.

    Results of other tools are ignored. Only a repeated call would show that such a result was
    needed again, and the recording repeated that call although the result was still in context.

    Args:
        counter: Token counter.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.count = 0
        self.tokens = 0
        self.requests: dict[int, int] = {}
        """Tokens of removed files that answers needed, by the position of the request."""
        self._counter = counter
        self._calls: dict[tuple[str | None, str], FunctionCall] = {}
        self._places: dict[str, set[Place]] = {}
        self._reads: dict[Place, _Read] = {}
        self._live_lines: Counter[str] = Counter()
        self._missing: dict[str, int] = {}

    def use(self, answer: Iterable[Message], request: int) -> None:
        """Processes the calls of an answer.

        Args:
            answer: Messages of the answer.
            request: Position of the answered request in the list of requests.
        """
        for message in answer:
            for call in message.function_calls:
                self._calls[_key(call.id, call.name)] = call
                path = path_of(call)
                if path in self._missing and not reads_file(call):
                    self.count += 1
                    tokens = self._missing.pop(path)
                    self.tokens += tokens
                    self.requests[request] = self.requests.get(request, 0) + tokens

    def add(self, message: Message) -> None:
        """Processes a recorded message and its tool results."""
        self._live_lines.update(_lines_of(message))
        for index, part in enumerate(message.parts):
            answer = part.function_response
            if answer is None or answer.is_error:
                continue
            call = self._calls.pop(_key(answer.call_id, answer.name), None)
            path = path_of(call) if call and reads_file(call) else None
            if path is not None:
                place = (message.message_id, index)
                alone = Message(Role.TOOL, [part], message_id="-")
                tokens = message_tokens(alone, self._counter)
                self._reads[place] = _Read(path, tokens, _lines_of(alone))
                self._places.setdefault(path, set()).add(place)
                self._missing.pop(path, None)

    def collected(self, removed: Sequence[Message], added: Iterable[Message]) -> None:
        """Processes a collection.

        Args:
            removed: Messages that the collection removed or changed.
            added: Messages that the collection added, including the changed versions.
        """
        for message in removed:
            self._live_lines.subtract(_lines_of(message))
        for message in added:
            self._live_lines.update(_lines_of(message))
        changed = {message.message_id for message in removed}
        gone = [
            place
            for place, read in self._reads.items()
            if not all(self._live_lines[line] > 0 for line in read.lines)
            or (not read.lines and place[0] in changed)
        ]
        for place in gone:
            read = self._reads.pop(place)
            self._places[read.path].remove(place)
            if not self._places[read.path]:
                self._missing[read.path] = read.tokens


class _Read(NamedTuple):
    """A result that shows a file."""

    path: str
    tokens: int
    lines: frozenset[str]


def _lines_of(message: Message) -> frozenset[str]:
    return frozenset().union(*map(lines_in, shown_texts(message)))


def _key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def path_of(call: FunctionCall) -> str | None:
    """Returns the path argument of a call, or ``None``."""
    if not isinstance(call.args, Mapping):
        return None
    for name in _TOOLS.path_arguments:
        path = call.args.get(name)
        if isinstance(path, str) and path:
            return path.removeprefix("file://").removeprefix("./")
    return None


def reads_file(call: FunctionCall) -> bool:
    """Returns whether a call reads a file, by its tool name or its ``command`` argument."""
    command = call.args.get("command") if isinstance(call.args, Mapping) else None
    if isinstance(command, str) and _matches(command, [*_TOOLS.read, *_TOOLS.edit]):
        return _matches(command, _TOOLS.read)  # an editor tool with several commands
    return _matches(call.name, _TOOLS.read)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    name = name.lower()
    short = name.rpartition("__")[2]  # the tool of mcp__server__tool
    return any(fnmatchcase(name, each) or fnmatchcase(short, each) for each in patterns)
