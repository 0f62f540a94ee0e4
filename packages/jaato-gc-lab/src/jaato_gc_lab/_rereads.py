"""Files that an agent would have had to read again, because what it had read was taken from it."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from jaato_gc import FunctionCall, Message, Part, Role, TokenCounter, ToolResult, message_tokens
from jaato_gc_marksweep import ToolNames

_TOOLS = ToolNames()

Place = tuple[str, int]
"""Where a result is: the id of its message, and the position of its part."""


class Rereads:
    """Follows which files a context shows, and counts those that are needed after they were taken.

    A call that shows a file has a name such as ``read_file`` and the file's path among its
    arguments. Its result is gone if it was removed, or cleared in part or whole. Once every result
    that showed a file is gone, the next call with that path that does not itself show it (an edit,
    say) would have needed another read: of the result that went last, with all its tokens. It is
    counted once until the file is shown again. Where the recording itself reads the file again
    first, nothing was missing.

    Results of other tools are left out: that a run came back to one shows only in the same call
    made again, and that call the recording made with everything still in its context.

    Args:
        counter: What counts tokens.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.count = 0
        self.tokens = 0
        self.requests: set[int] = set()
        """Positions, in the list of requests, of those whose answers needed a file again."""
        self._counter = counter
        self._calls: dict[tuple[str | None, str], FunctionCall] = {}
        self._places: dict[str, dict[Place, None]] = {}
        self._paths: dict[Place, str] = {}
        self._missing: dict[str, int] = {}

    def use(self, answer: Iterable[Message], request: int) -> None:
        """The model has answered: look at its calls.

        Args:
            answer: What it said.
            request: Position, in the list of requests, of the one that it answered.
        """
        for message in answer:
            for call in message.function_calls:
                self._calls[_key(call.id, call.name)] = call
                path = path_in(call)
                if path in self._missing and not shows_a_file(call):
                    self.count += 1
                    self.tokens += self._missing.pop(path)
                    self.requests.add(request)

    def add(self, message: Message) -> None:
        """A message of the recording has come: look at its results."""
        for index, part in enumerate(message.parts):
            answer = part.function_response
            if answer is None or answer.is_error:
                continue
            call = self._calls.pop(_key(answer.call_id, answer.name), None)
            path = path_in(call) if call and shows_a_file(call) else None
            if path is not None:
                place = (message.message_id, index)
                self._places.setdefault(path, {})[place] = None
                self._paths[place] = path
                self._missing.pop(path, None)

    def collected(self, gone: Sequence[Message], come: Iterable[Message]) -> None:
        """A collection has taken messages, and put others (or what is left of them) there."""
        left = {message.message_id: message for message in come}
        for message in gone:
            for index, part in enumerate(message.parts):
                place = (message.message_id, index)
                if place not in self._paths:
                    continue
                if _result(message, index) != _result(left.get(message.message_id), index):
                    self._take(place, part)

    def _take(self, place: Place, part: Part) -> None:
        path = self._paths.pop(place)
        places = self._places[path]
        del places[place]
        if not places:
            alone = Message(Role.TOOL, [part], message_id="-")
            self._missing[path] = message_tokens(alone, self._counter)


def _result(message: Message | None, index: int) -> Any:
    if message is None or index >= len(message.parts):
        return None
    answer: ToolResult | None = message.parts[index].function_response
    return answer and answer.result


def _key(call_id: str | None, name: str) -> tuple[str | None, str]:
    return (call_id, "") if call_id else (None, name)


def path_in(call: FunctionCall) -> str | None:
    """The path that a call names, if it names one."""
    if not isinstance(call.args, Mapping):
        return None
    for name in _TOOLS.path_arguments:
        path = call.args.get(name)
        if isinstance(path, str) and path:
            return path.removeprefix("file://").removeprefix("./")
    return None


def shows_a_file(call: FunctionCall) -> bool:
    """Whether a call reads a file, by the name of its tool or of what an editor is told to do."""
    told = call.args.get("command") if isinstance(call.args, Mapping) else None
    if isinstance(told, str) and _is_one_of(told, [*_TOOLS.read, *_TOOLS.edit]):
        return _is_one_of(told, _TOOLS.read)  # an editor that does several things
    return _is_one_of(call.name, _TOOLS.read)


def _is_one_of(name: str, patterns: Iterable[str]) -> bool:
    name = name.lower()
    short = name.rpartition("__")[2]  # as in mcp__server__tool
    return any(fnmatchcase(name, each) or fnmatchcase(short, each) for each in patterns)
