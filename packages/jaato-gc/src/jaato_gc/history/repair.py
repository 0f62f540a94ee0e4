"""Repair of invalid histories, if the host asks for it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jaato_gc.history.pairing import pair_calls
from jaato_gc.messages import Message, Part, Role, ToolResult

NO_RESULT = "[no result was recorded for this call]"


def repair_history(history: Sequence[Message]) -> list[Message]:
    """Returns a history in which every call is answered directly and every result has its call.

    A dangling call gets a result that says that none was recorded, a misplaced result moves behind
    its call, and a result without a call is dropped. Calls at the end stay open. Model messages are
    never dropped, valid messages stay the same objects, and repairing the same history again gives
    the same messages under the same ids.
    """
    pairing = pair_calls(history)
    exchanges: dict[int, list[Message]] = {}  # a message and the results that follow it
    answers: dict[int, list[Message]] = {}  # results that belong behind an exchange
    start = 0
    for position, message in enumerate(history):
        callers = pairing.callers.get(position, [])
        own, moved = _sort_parts(message, callers, in_place=(start, position))
        if own or not message.parts:
            left = message if len(own) == len(message.parts) else message.with_parts(own)
            if left.function_calls or not left.is_tool_output:
                start = position
            exchanges.setdefault(start, []).append(left)
        for caller, parts in moved.items():
            behind = history[caller].message_id
            answers.setdefault(caller, []).append(_moved(message, parts, behind, whole=not own))
    for position, calls in pairing.unanswered.items():
        if position < start:
            missing = [
                Part(function_response=ToolResult(call.id, call.name, NO_RESULT, is_error=True))
                for call in calls
            ]
            repaired = Message(
                Role.TOOL, missing, message_id=f"repair-{history[position].message_id}"
            )
            answers.setdefault(position, []).append(repaired)
    return [
        message
        for position, exchange in exchanges.items()
        for message in (*exchange, *answers.get(position, ()))
    ]


def _sort_parts(
    message: Message, callers: Iterable[int | None], in_place: tuple[int, int]
) -> tuple[list[Part], dict[int, list[Part]]]:
    """Returns the parts that stay, and those that belong behind another message, by position."""
    own: list[Part] = []
    moved: dict[int, list[Part]] = {}
    remaining = iter(callers)
    for part in message.parts:
        if part.function_response is None:
            own.append(part)
            continue
        caller = next(remaining)
        if caller in in_place:
            own.append(part)
        elif caller is not None:
            moved.setdefault(caller, []).append(part)
    return own, moved


def _moved(message: Message, parts: list[Part], behind: str, *, whole: bool) -> Message:
    if whole and len(parts) == len(message.parts):
        return message
    new_id = f"repair-{message.message_id}-{behind}"
    return replace(message, role=Role.TOOL, parts=parts, message_id=new_id)
