"""Assigns call ids for a provider that requires a unique one on every call.

Some providers assign no ids, some use characters that others refuse, and some restart their
numbering with each response.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from jaato_gc import FunctionCall, Message, Part, ToolResult
from jaato_gc_formats._wire import original_items

_INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


def with_call_ids(messages: Iterable[Message], format: str) -> Iterator[Message]:
    """Yields the messages with valid, unique ids on calls and results.

    Calls that are written as their original objects are not changed. A new id is derived from the
    message's id, so that it is the same in every request.
    """
    used: set[str] = set()
    waiting: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        if message.function_calls:
            waiting = {}
        is_original = original_items(message, format) is not None
        parts: list[Part] = []
        for index, part in enumerate(message.parts):
            if call := part.function_call:
                new_id = call.id or ""
                if not is_original:
                    new_id = _new_id(call, f"{message.message_id}_{index}", used)
                used.add(new_id)
                waiting.setdefault(_key(call), []).append(new_id)
                if new_id != (call.id or ""):
                    part = replace(part, function_call=replace(call, id=new_id))
            elif answer := part.function_response:
                called = waiting.get(_key(answer))
                answered = answer.call_id or ""
                if called:  # of a call that has a new id, even the original result must change
                    answered = called.pop(0)
                elif not is_original:
                    answered = _sanitize(answered)
                if answered != (answer.call_id or ""):
                    part = replace(part, function_response=replace(answer, call_id=answered))
            parts.append(part)
        changed = any(one is not other for one, other in zip(parts, message.parts, strict=True))
        yield message.with_parts(parts) if changed else message


def _new_id(call: FunctionCall, fallback: str, used: set[str]) -> str:
    new_id = _sanitize(call.id or fallback)
    if new_id in used:
        new_id = _sanitize(f"{new_id}_{fallback}")
    numbers = itertools.count(2)
    unique = new_id
    while unique in used:
        unique = f"{new_id}_{next(numbers)}"
    return unique


def _sanitize(call_id: str) -> str:
    return _INVALID_CHARACTERS.sub("_", call_id)


def _key(call: FunctionCall | ToolResult) -> tuple[str, str]:
    call_id = call.id if isinstance(call, FunctionCall) else call.call_id
    return (call_id, "") if call_id else ("", call.name)
