"""Which tool result answers which tool call."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaato_gc.messages import TOOL, FunctionCall, Message


@dataclass(slots=True)
class Pairing:
    """The calls and results of a history, by position of their messages."""

    calls: dict[int, list[FunctionCall]] = field(default_factory=dict)
    """For each message with calls: the calls."""
    callers: dict[int, list[int | None]] = field(default_factory=dict)
    """For each message with results: the position of the call of each result, None if missing."""
    unanswered: dict[int, list[FunctionCall]] = field(default_factory=dict)
    """For each message with calls that no later result answers: those calls."""
    expected_callers: dict[int, int] = field(default_factory=dict)
    """For each tool output: the last message before it that has calls, or is no tool output.

    In a valid history that message has the calls.
    """
    last_exchange: int = 0
    """The last message, or the one that the final results answer.

    Calls from here on are open: they may still be answered. Earlier unanswered calls are dangling.
    """


def pair_calls(history: Sequence[Message]) -> Pairing:
    """Matches results to calls, in one pass.

    Ids may repeat, so a result belongs to the latest earlier call with its id that is still
    unanswered. Without ids, it belongs to the latest such call with its name.
    """
    pairing = Pairing()
    last_exchange = 0
    open_calls: dict[tuple[str | None, str], list[tuple[int, FunctionCall]]] = {}
    for position, message in enumerate(history):
        calls: list[FunctionCall] | None = None
        callers: list[int | None] | None = None
        for part in message.parts:
            if call := part.function_call:
                calls = calls or []
                calls.append(call)
                key = (call.id, "") if call.id else (None, call.name)
                open_calls.setdefault(key, []).append((position, call))
            if answer := part.function_response:
                key = (answer.call_id, "") if answer.call_id else (None, answer.name)
                waiting = open_calls.get(key)
                callers = callers or []
                callers.append(waiting.pop()[0] if waiting else None)
        if callers:
            pairing.callers[position] = callers
        if is_tool_output := callers or message.role is TOOL:
            pairing.expected_callers[position] = last_exchange
        if calls:
            pairing.calls[position] = calls
        if calls or not is_tool_output:
            last_exchange = position
    pairing.last_exchange = last_exchange
    for waiting in open_calls.values():
        for position, call in waiting:
            pairing.unanswered.setdefault(position, []).append(call)
    return pairing
