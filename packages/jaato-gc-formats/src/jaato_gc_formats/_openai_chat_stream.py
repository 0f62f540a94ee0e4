"""Joins the chunks of a streamed chat completion."""

from collections.abc import Iterable
from typing import Any

from jaato_gc_formats._wire import Fields, plain, without

PIECES = ("arguments", "input")
"""Fields of a call that are streamed in pieces. Servers may repeat the other ones."""


def joined(events: Iterable[Any]) -> Fields | None:
    """Returns the response that some chunks make up; ``None`` if its end is missing.

    Args:
        events: The chunks. The SDK's ``stream()`` yields them as events, among other events that
            are derived from them.
    """
    message: Fields = {"role": "assistant", "content": None}
    calls: dict[int, Fields] = {}
    finish = usage = None
    for event in events:
        if getattr(event, "type", "chunk") != "chunk":
            continue
        chunk = plain(getattr(event, "chunk", event))
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                delta = choice.get("delta") or {}
                _add_fields(message, without(delta, "tool_calls"))
                for piece in delta.get("tool_calls") or ():
                    _add_call(calls, piece)
                finish = choice.get("finish_reason") or finish
    if finish is None:
        return None
    message["content"] = message["content"] or None  # streams begin with an empty text
    if calls:
        message["tool_calls"] = list(calls.values())
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _add_fields(message: Fields, delta: Fields) -> None:
    for name, value in delta.items():
        before = message.get(name)
        if name == "role" or before is None or value is None:
            message[name] = before if value is None else value
        elif isinstance(value, dict):
            message[name] = dict(before)
            _add_pieces(message[name], value)
        elif isinstance(value, str | list):
            message[name] = before + value
        else:
            message[name] = value


def _add_call(calls: dict[int, Fields], piece: Fields) -> None:
    """Adds a piece of a call. Servers that send whole calls give them no index."""
    number = piece.get("index")
    if number is None:
        number = len(calls) if piece.get("id") else len(calls) - 1
    call = calls.setdefault(number, {})
    for name, value in without(piece, "index").items():
        if isinstance(value, dict):
            _add_pieces(call.setdefault(name, {}), value)
        elif not call.get(name):
            call[name] = value


def _add_pieces(fields: Fields, piece: Fields) -> None:
    for name, value in piece.items():
        if name in PIECES and isinstance(value, str):
            fields[name] = (fields.get(name) or "") + value
        elif not fields.get(name):
            fields[name] = value
