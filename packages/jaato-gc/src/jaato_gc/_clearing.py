"""Clearing: a tool result becomes a short note of itself, so that its call keeps an answer."""

import re
from dataclasses import replace

from jaato_gc._messages import Message, Part
from jaato_gc._tokens import as_text

_STUB = re.compile(r"\[result cleared to free context space: it was \d+ characters long\]")
_IMAGE_STUB = "[attachment cleared to free context space]"


def cleared(message: Message) -> Message:
    """The message with its tool results shortened; the message itself where there are none.

    The same content always gives the same stub, and a stub stays as it is, so a prompt cache that
    has seen it once keeps matching. Text, thoughts and calls are left alone.
    """
    if not any(part.function_response for part in message.parts):
        return message
    return message.with_parts([_cleared_part(part) for part in message.parts])


def _cleared_part(part: Part) -> Part:
    if part.inline_data:
        return replace(part, inline_data=None, text=(part.text or "") + _IMAGE_STUB)
    if not part.function_response:
        return part
    content = as_text(part.function_response.result)
    if _STUB.fullmatch(content):
        return part
    stub = f"[result cleared to free context space: it was {len(content)} characters long]"
    return replace(part, function_response=replace(part.function_response, result=stub))
