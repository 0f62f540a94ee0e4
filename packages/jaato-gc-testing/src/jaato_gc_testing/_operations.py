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
    """How many functions the work calls and how often it looks at a `CountingId`."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    used = CountingId.uses
    before = sys.getprofile()
    collects = gc.isenabled()
    gc.disable()  # whoever is called when Python collects would be counted
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls + CountingId.uses - used
