"""Counts operations instead of seconds, to measure how work grows with the history."""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from jaato_gc import FunctionCall, Message, Part, Role, ToolResult


class CountingId(str):
    """A message id that counts how often it is hashed or compared, also from C code."""

    __slots__ = ()
    uses = 0

    def __eq__(self, other: object) -> bool:
        CountingId.uses += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        CountingId.uses += 1
        return str.__hash__(self)


def long_history(turns: int) -> list[Message]:
    """Returns a simple history: every turn is a request, a call, its result and an answer."""
    history: list[Message] = []
    for turn in range(turns):
        call = FunctionCall(f"call_{turn}", "look", {"at": turn})
        history += [
            Message.from_text(Role.USER, f"question {turn}"),
            Message(Role.MODEL, [Part(function_call=call)]),
            Message(Role.TOOL, [Part(function_response=ToolResult(call.id, "look", "nothing"))]),
            Message.from_text(Role.MODEL, f"answer {turn}"),
        ]
    return [
        replace(message, message_id=CountingId(f"m{number}"))
        for number, message in enumerate(history)
    ]


def count_operations(work: Callable[[], Any]) -> int:
    """Returns how many operations a function takes, independent of the speed of the machine.

    Operations are calls, executed lines (one per iteration of a loop) and uses of the message ids
    of `long_history`.
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
    gc.disable()  # a collection of Python calls finalizers, which would count
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
