"""Counting operations instead of seconds: how work grows with the history."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult


class CountingId(str):
    """A message id that counts how often it is hashed or compared, in C code too."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other: object) -> bool:
        CountingId.uses += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        CountingId.uses += 1
        return str.__hash__(self)


def long_history(turns: int) -> list[Message]:
    """A plain agent's history: each turn a request, a call, its result, an answer."""
    history: list[Message] = []
    for turn in range(turns):
        call = FunctionCall(f"call_{turn}", "look", {"at": turn})
        history += [
            Message.from_text(Role.USER, f"question {turn}"),
            Message(Role.MODEL, [Part(function_call=call)]),
            Message(Role.TOOL, [Part(function_response=ToolResult(call.id, "look", "nothing"))]),
            Message.from_text(Role.MODEL, f"answer {turn}"),
        ]
    for number, message in enumerate(history):
        message.message_id = CountingId(f"m{number}")
    return history


def count_operations(work: Callable[[], Any]) -> int:
    """How much work something is, whatever the machine does meanwhile.

    Functions called, lines run (each round of a loop is one) and looks at a `CountingId`.
    """
    calls = lines = 0

    def note_call(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def note_line(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return note_line

    used = CountingId.uses
    profiled, traced = sys.getprofile(), sys.gettrace()
    collects = gc.isenabled()
    gc.disable()  # whoever is called when Python collects would be counted
    sys.settrace(note_line)
    sys.setprofile(note_call)
    try:
        work()
    finally:
        sys.setprofile(profiled)
        sys.settrace(traced)
        if collects:
            gc.enable()
    return calls + lines + CountingId.uses - used
