"""The rules for one request, written without the checks of the product."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc import Confidence, FunctionCall, Message, Part, Role, ToolResult


class Words:
    """Counts words, so that the soak can count without core."""

    name = "words"
    confidence = Confidence.EXACT
    tolerance = 0.0

    def count_text(self, text: str) -> int:
        return len(text.split())


def words_in(messages: Iterable[Message]) -> int:
    """Returns the tokens of messages: their words, and the frames of messages and calls."""
    return sum(4 + sum(map(_words_of, message.parts)) for message in messages)


def _words_of(part: Part) -> int:
    words = len(f"{part.text or ''} {part.thought or ''}".split())
    if call := part.function_call:
        words += 8 + len((call.name + _as_text(call.args)).split())
    if result := part.function_response:
        words += 8 + len((result.name + _as_text(result.result)).split())
    return words


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def faults_of(request: Sequence[Message]) -> Iterator[str]:
    """Yields what a provider would refuse."""
    if len({message.message_id for message in request}) < len(request):
        yield "two messages have the same id"
    said = [message for message in request if message.role is not Role.SYSTEM]
    if not said or said[0].role is not Role.USER or _results(said[0]):
        yield "it does not begin with a user message"
    waiting: list[FunctionCall] = []
    for message in request:
        if not any(map(_has_content, message.parts)):
            yield f"{message.message_id} is empty"
        calls, results = _calls(message), _results(message)
        if calls and message.role is not Role.MODEL:
            yield f"{message.message_id} is a {message.role} message with a call"
        if results and message.role not in (Role.TOOL, Role.USER):
            yield f"{message.message_id} is a {message.role} message with a result"
        if message.role is Role.TOOL and not results:
            yield f"{message.message_id} is a tool message without a result"
        if waiting and not results:
            yield f"{message.message_id} comes between a call and its result"
        for result in results:
            answered = next((call for call in waiting if _answers(result, call)), None)
            if answered is None:
                yield f"{message.message_id} has a result that answers no waiting call"
            else:
                waiting.remove(answered)
        ids = [call.id for call in calls if call.id]
        if len(set(ids)) < len(ids):
            yield f"{message.message_id} has two calls with the same id"
        waiting += calls
    if waiting:
        yield f"it ends with open calls: {waiting}"


def _has_content(part: Part) -> bool:
    text = (part.text or "") + (part.thought or "")
    return bool(text.strip() or part.function_call or part.function_response)


def _calls(message: Message) -> list[FunctionCall]:
    return [part.function_call for part in message.parts if part.function_call]


def _results(message: Message) -> list[ToolResult]:
    return [part.function_response for part in message.parts if part.function_response]


def _answers(result: ToolResult, call: FunctionCall) -> bool:
    return result.call_id == call.id if result.call_id else result.name == call.name


# --- messages as values ---


def form_of(message: Message) -> str:
    """Returns everything that a message says, as a text to compare."""
    parts = [_fields(part) for part in message.parts]
    return json.dumps([message.message_id, message.role, message.synthetic, parts])


def frame_of(message: Message) -> str:
    """Returns a message without what may be shortened: results and arguments."""
    parts = [_fields(part, whole=False) for part in message.parts]
    return json.dumps([message.message_id, message.role, message.synthetic, parts])


def _fields(part: Part, *, whole: bool = True) -> list[Any]:
    call, result = part.function_call, part.function_response
    return [
        part.text,
        part.thought,
        part.extra,
        call and [call.id, call.name, call.args if whole else None],
        result and [result.call_id, result.name, result.result if whole else None, result.is_error],
    ]
