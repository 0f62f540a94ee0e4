"""Ids of calls for a provider that wants one on every call, and no two the same.

Some providers give no ids, some use letters that others refuse, some begin anew with each answer.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from jaato_gc import FunctionCall, Message, Part, ToolResult
from jaato_gc_formats._wire import untouched_items

_OTHER_LETTERS = re.compile(r"[^a-zA-Z0-9_-]")


def with_call_ids(messages: Iterable[Message], format: str) -> Iterator[Message]:
    """The messages, with valid ids on calls and results. Those to be sent as they were stay so.

    A new id follows from the message's own, so that it is the same in every request.
    """
    used: set[str] = set()
    waiting: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        if message.function_calls:
            waiting = {}
        as_it_was = untouched_items(message, format) is not None
        parts: list[Part] = []
        for index, part in enumerate(message.parts):
            if call := part.function_call:
                new_id = call.id or ""
                if not as_it_was:
                    new_id = _new_id(call, f"{message.message_id}_{index}", used)
                used.add(new_id)
                waiting.setdefault(_key(call), []).append(new_id)
                if new_id != call.id:
                    part = replace(part, function_call=replace(call, id=new_id))
            elif answer := part.function_response:
                called = waiting.get(_key(answer))
                answered = called.pop(0) if called else _valid(answer.call_id or "")
                if answered != answer.call_id:
                    part = replace(part, function_response=replace(answer, call_id=answered))
            parts.append(part)
        changed = any(one is not other for one, other in zip(parts, message.parts, strict=True))
        yield message.with_parts(parts) if changed and not as_it_was else message


def _new_id(call: FunctionCall, otherwise: str, used: set[str]) -> str:
    new_id = _valid(call.id or otherwise)
    if new_id in used:
        new_id = _valid(f"{new_id}_{otherwise}")
    return new_id


def _valid(call_id: str) -> str:
    return _OTHER_LETTERS.sub("_", call_id)


def _key(call: FunctionCall | ToolResult) -> tuple[str, str]:
    call_id = call.id if isinstance(call, FunctionCall) else call.call_id
    return (call_id, "") if call_id else ("", call.name)
