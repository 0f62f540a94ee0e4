"""Making a broken history sendable again, when asked to."""

from collections.abc import Sequence
from dataclasses import replace

from jaato_gc._messages import Message, Part, Role, ToolResult
from jaato_gc._pairing import Pairing, pair_calls

NO_RESULT = "[no result was recorded for this call]"


def repair_history(history: Sequence[Message]) -> list[Message]:
    """A history in which every call is answered directly and every result has its call.

    A dangling call gets a result that says that none was recorded; a result that stands elsewhere
    moves behind its call; a result without a call is dropped. Calls that end the history stay open.
    No model message is ever dropped, what was in order stays the very same object, and repairing
    the same history again gives the same messages under the same ids.
    """
    pairing = pair_calls(history)
    answers: dict[int, list[Message]] = {}
    rest: dict[int, Message] = {}
    for position, message in enumerate(history):
        own, moved = _sort_parts(position, message, pairing)
        if own:
            rest[position] = message if len(own) == len(message.parts) else message.with_parts(own)
        elif not moved and not message.parts:
            rest[position] = message
        for caller, parts in moved.items():
            behind = history[caller].message_id
            answers.setdefault(caller, []).append(_moved(message, parts, behind, whole=not own))
    for position, calls in pairing.unanswered.items():
        if position < pairing.last_exchange:
            missing = [
                Part(function_response=ToolResult(call.id, call.name, NO_RESULT, is_error=True))
                for call in calls
            ]
            repaired = Message(
                Role.TOOL, missing, message_id=f"repair-{history[position].message_id}"
            )
            answers.setdefault(position, []).append(repaired)
    return _assemble(history, rest, answers, pairing)


def _sort_parts(
    position: int, message: Message, pairing: Pairing
) -> tuple[list[Part], dict[int, list[Part]]]:
    """The parts that stay here, and those that belong behind another message, by its position."""
    own: list[Part] = []
    moved: dict[int, list[Part]] = {}
    callers = iter(pairing.callers.get(position, ()))
    for part in message.parts:
        if part.function_response is None:
            own.append(part)
            continue
        caller = next(callers)
        if caller in (pairing.exchange_starts[position], position):
            own.append(part)
        elif caller is not None:
            moved.setdefault(caller, []).append(part)
    return own, moved


def _moved(message: Message, parts: list[Part], behind: str, *, whole: bool) -> Message:
    if whole and len(parts) == len(message.parts):
        return message
    new_id = f"repair-{message.message_id}-{behind}"
    return replace(message, role=Role.TOOL, parts=parts, message_id=new_id)


def _assemble(
    history: Sequence[Message],
    rest: dict[int, Message],
    answers: dict[int, list[Message]],
    pairing: Pairing,
) -> list[Message]:
    repaired: list[Message] = []
    waiting: list[Message] = []
    for position, message in enumerate(history):
        if position not in pairing.exchange_starts or message.function_calls:
            # The results of the calls before are all in.
            repaired.extend(waiting)
            waiting = answers.get(position, [])
        if position in rest:
            repaired.append(rest[position])
    return repaired + waiting
