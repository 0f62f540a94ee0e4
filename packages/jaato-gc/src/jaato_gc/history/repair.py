"""Repair of invalid histories, if the host asks for it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby

from jaato_gc.history.invariants import opens_with_user
from jaato_gc.history.pairing import pair_calls
from jaato_gc.history.places import without_displaced
from jaato_gc.messages import MODEL, SYSTEM, TOOL, USER, Message, Part, ToolResult

NO_RESULT = "[no result was recorded for this call]"
NO_BEGINNING = "[the beginning of this conversation was not recorded]"

_NOWHERE = -1


def repair_history(history: Sequence[Message]) -> list[Message]:
    """Returns a history that providers accept.

    - A call without a result gets one that says that none was recorded. Calls at the end stay open.
    - A result moves behind its call. A result without a call is removed.
    - A call in a user, system or tool message moves into a model message.
    - A call id that occurs twice in a message, or a message id, gets a number.
    - Empty messages and tool messages without a result are removed.
    - If the user does not speak first, a user message says that the beginning is missing.
    - A message that keeps its place is removed if a message beside it was removed or moved.

    Valid messages stay the same objects, and repairing the same history again gives the same
    messages under the same ids. Two faults remain: a history without messages, and calls with the
    same id that the provider signed.
    """
    ids = _Ids(history)
    messages = [piece for message in ids.different(history) for piece in _pieces(message, ids)]
    messages = [message for message in _with_different_call_ids(messages) if _is_sendable(message)]
    repaired = _with_beginning(_with_results_in_place(messages, ids), ids)
    return without_displaced(history, repaired)


def ensure_tool_call_integrity(history: Sequence[Message]) -> list[Message]:
    """Returns a history in which every result has its call, and every call its result.

    This is `repair_history` under the name that it has in JAATO.
    """
    return repair_history(history)


class _Ids:
    """The message ids of a history, so that new ones differ from them."""

    def __init__(self, history: Sequence[Message]) -> None:
        self._taken = {message.message_id for message in history}

    def new(self, wanted: str) -> str:
        """Returns an id that is not taken: the wanted one, if possible."""
        found = _unused(wanted, self._taken)
        self._taken.add(found)
        return found

    def different(self, history: Sequence[Message]) -> Iterator[Message]:
        """Yields the messages, with new ids instead of repeated ones."""
        seen: set[str] = set()
        for message in history:
            if message.message_id in seen:
                message = replace(message, message_id=self.new(f"repair-{message.message_id}"))
            seen.add(message.message_id)
            yield message


def _unused(wanted: str, taken: set[str]) -> str:
    if wanted not in taken:
        return wanted
    return next(found for number in count(2) if (found := f"{wanted}-{number}") not in taken)


def _pieces(message: Message, ids: _Ids) -> Iterator[Message]:
    """Yields a message in pieces, so that only model messages have calls."""
    if message.role is MODEL or not message.function_calls:
        yield message
        return
    runs = groupby(message.parts, lambda part: part.function_call is not None)
    for number, (has_calls, parts) in enumerate(runs):
        role = MODEL if has_calls else message.role
        piece = replace(message, role=role, parts=tuple(parts))
        if number:
            piece = replace(piece, message_id=ids.new(f"repair-{message.message_id}"))
        yield piece


def _with_different_call_ids(history: Sequence[Message]) -> Iterator[Message]:
    """Yields the messages, with new ids for calls whose id another call of the message has.

    Their results follow in the order of the calls.
    """
    answers: dict[str, list[str]] = {}
    for message in history:
        called = {call.id for call in message.function_calls if call.id}
        for call_id in called:
            answers[call_id] = []
        parts = []
        for part in message.parts:
            call, answer = part.function_call, part.function_response
            if call and call.id:
                new_id = call.id
                if answers[call.id] and not part.is_signed:
                    new_id = _unused(f"{call.id}-2", called)
                    called.add(new_id)
                    part = replace(part, function_call=replace(call, id=new_id))
                answers[call.id].append(new_id)
            if answer and answer.call_id and answers.get(answer.call_id):
                new_id = answers[answer.call_id].pop(0)
                if new_id != answer.call_id:
                    part = replace(part, function_response=replace(answer, call_id=new_id))
            parts.append(part)
        yield _with_parts(message, parts)


def _is_sendable(message: Message) -> bool:
    return not message.is_empty and (message.role is not TOOL or bool(message.function_responses))


def _with_results_in_place(history: Sequence[Message], ids: _Ids) -> list[Message]:
    """Returns the messages with every result directly behind its call, and one for each call."""
    pairing = pair_calls(history)
    exchanges: dict[int, list[Message]] = {}  # a message and the results that follow it
    answers: dict[int, list[Message]] = {}  # results that belong behind an exchange
    start = 0
    for position, message in enumerate(history):
        home = position if message.role is MODEL else start
        home = _NOWHERE if message.role is SYSTEM else home
        parts = _parts_by_caller(message, pairing.callers.get(position, []), home)
        left = _with_parts(message, parts.pop(home, []))
        if _is_sendable(left):
            if left.function_calls or not left.is_tool_output:
                start = position
            exchanges.setdefault(start, []).append(left)
        for caller, results in parts.items():
            if caller is None:  # they answer no call
                continue
            if len(results) == len(message.parts) and not left.parts:  # it moves as a whole
                moved = message if message.role in (TOOL, USER) else replace(message, role=TOOL)
            else:
                new_id = ids.new(f"repair-{message.message_id}-{history[caller].message_id}")
                moved = replace(message, role=TOOL, parts=tuple(results), message_id=new_id)
            answers.setdefault(caller, []).append(moved)
    for position, calls in pairing.unanswered.items():
        if position < start:
            missing = [
                Part(function_response=ToolResult(call.id, call.name, NO_RESULT, is_error=True))
                for call in calls
            ]
            new_id = ids.new(f"repair-{history[position].message_id}")
            answers.setdefault(position, []).append(Message(TOOL, missing, new_id))
    return [
        message
        for position, exchange in exchanges.items()
        for message in (*exchange, *answers.get(position, ()))
    ]


def _parts_by_caller(
    message: Message, callers: Sequence[int | None], home: int
) -> dict[int | None, list[Part]]:
    """Returns the parts of a message by the message that they belong behind.

    Args:
        message: The message.
        callers: The position of the call of each result; None if there is none.
        home: The position whose results may be in this message. All parts that are not results
            belong there too, except in tool messages: there they belong to the result before them.
    """
    is_tool = message.role is TOOL
    place = callers[0] if is_tool and callers else home
    parts: dict[int | None, list[Part]] = {}
    remaining = iter(callers)
    for part in message.parts:
        if part.function_response is None:
            parts.setdefault(place, []).append(part)
            continue
        caller = next(remaining)
        place = caller if is_tool else home
        if caller != home and (part.function_call or part.text or part.inline_data):
            parts.setdefault(place, []).append(replace(part, function_response=None))
            part = Part(function_response=part.function_response)
        parts.setdefault(caller, []).append(part)
    return parts


def _with_parts(message: Message, parts: Sequence[Part]) -> Message:
    """Returns a message with other parts; the same one if they are the same."""
    old = message.parts
    if len(parts) == len(old) and all(one is other for one, other in zip(parts, old, strict=True)):
        return message
    return message.with_parts(parts)


def _with_beginning(history: list[Message], ids: _Ids) -> list[Message]:
    if opens_with_user(history):
        return history
    place = next(at for at, message in enumerate(history) if message.role is not SYSTEM)
    new_id = ids.new(f"repair-before-{history[place].message_id}")
    beginning = Message.from_text(USER, NO_BEGINNING, message_id=new_id)
    return [*history[:place], beginning, *history[place:]]
