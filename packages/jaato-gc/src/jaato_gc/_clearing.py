"""Clearing: a part becomes a shorter form of itself, so that calls and results stay together."""

import re
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, Literal

from jaato_gc._messages import Message, Part
from jaato_gc._tokens import as_text

_LONGEST_NOTE = 8_000
# A note holds no bracket, and not any number of characters: text that only begins like a stub costs
# no more than other text, and no tool can pass off a long result as something cleared already.
_STUB = re.compile(
    r"\[([0-9]{1,15}) characters cleared: "
    rf"[^\n\[\]]{{0,{_LONGEST_NOTE}}}?(?:; recall key ([0-9a-f]{{16}}))?\]"
)
_IN_A_NOTE = str.maketrans("[]\n", "() ")
_IMAGE_STUB = "[attachment cleared to free context space]"


@dataclass(frozen=True, slots=True)
class Clearing:
    """What becomes of a part that is cleared.

    Args:
        note: Told the model, in the stub: why, or how to get it back.
        head: Characters to keep from the beginning.
        tail: Characters to keep from the end.
        what: Tool results, or the long arguments of calls.
    """

    note: str = "to free context space"
    head: int = 0
    tail: int = 0
    what: Literal["results", "arguments"] = "results"


STUB_ONLY = Clearing()
"""Nothing stays but a stub."""


def cleared(
    message: Message,
    how: Clearing = STUB_ONLY,
    *,
    parts: Container[int] | None = None,
    key: str | None = None,
) -> Message:
    """The message with results or arguments shortened; the message itself where there are none.

    The same content always gives the same stub, and a stub stays as it is, so a prompt cache that
    has seen it once keeps matching. Text and thoughts are left alone, and so are calls that a
    provider has signed.

    Args:
        message: The message.
        how: What becomes of it.
        parts: Positions of the parts to clear; ``None``: all.
        key: What the whole message can be recalled by, if it can.
    """
    chosen = [
        index
        for index, part in enumerate(message.parts)
        if (parts is None or index in parts) and _has(part, how)
    ]
    if not chosen:
        return message
    new = list(message.parts)
    for index in chosen:
        new[index] = _shorter(new[index], how, key)
    if how.what == "results" and how.head == how.tail == 0 and _is_over(message.parts, chosen):
        new = [_without_attachment(part) for part in new]
    return message.with_parts(new)


def _is_over(parts: list[Part], chosen: Container[int]) -> bool:
    """Whether no result is left whole, so that what tools attached belongs to none."""
    return all(
        index in chosen or _STUB.fullmatch(as_text(part.function_response.result))
        for index, part in enumerate(parts)
        if part.function_response
    )


def never_cleared(message: Message) -> Message:
    """A message without what clearing can take: results, arguments, and what tools attached."""
    kept: list[Part] = []
    for part in message.parts:
        if call := part.function_call:
            part = replace(part, function_call=replace(call, args={}))
        elif answer := part.function_response:
            part = replace(part, function_response=replace(answer, result=None))
        elif message.is_tool_output:
            continue
        kept.append(part)
    return message.with_parts(kept)


def _has(part: Part, how: Clearing) -> bool:
    if how.what == "results":
        return part.function_response is not None
    return part.function_call is not None and not part.is_signed


def _shorter(part: Part, how: Clearing, key: str | None) -> Part:
    if answer := part.function_response:
        text = as_text(answer.result)
        short = shortened(text, how, key)
        if short is text:
            return part
        return replace(part, function_response=replace(answer, result=short))
    if call := part.function_call:
        return replace(part, function_call=replace(call, args=_arguments(call.args, how, key)))
    return part


def _arguments(value: Any, how: Clearing, key: str | None) -> Any:
    """Arguments of the same shape, with their long texts shortened."""
    if isinstance(value, str):
        return shortened(value, how, key)
    if isinstance(value, dict):
        return {name: _arguments(each, how, key) for name, each in value.items()}
    if isinstance(value, list):
        return [_arguments(each, how, key) for each in value]
    return value


def shortened(text: str, how: Clearing = STUB_ONLY, key: str | None = None) -> str:
    """Head and tail of a text with a stub between them; the text itself if that is no shorter."""
    earlier = _STUB.search(text)
    if earlier and earlier[0] == text:
        return text
    first = last = text
    length = len(text)
    if earlier:  # what is cleared again is still counted and recalled as it was at first
        first = text[: earlier.start()].removesuffix("\n")
        last = text[earlier.end() :].removeprefix("\n")
        length = len(first) + int(earlier[1]) + len(last)
        key = earlier[2] or key
    head, tail = _head(first, how.head), _tail(last, how.tail)
    recall = f"; recall key {key}" if key else ""
    note = how.note.translate(_IN_A_NOTE)[:_LONGEST_NOTE]
    stub = f"[{length - len(head) - len(tail)} characters cleared: {note}{recall}]"
    short = "\n".join(filter(None, [head, stub, tail]))
    return short if len(short) < len(text) else text


def _head(text: str, length: int) -> str:
    """The beginning of a text, in whole lines if that keeps half of it or more."""
    if len(text) <= length:
        return text
    head = text[:length]
    end = head.rfind("\n")
    return (head[:end] if end >= length // 2 else head).rstrip()


def _tail(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    tail = text[len(text) - length :]
    start = tail.find("\n")
    return (tail[start:] if 0 <= start <= length // 2 else tail).lstrip("\n")


def _without_attachment(part: Part) -> Part:
    if part.inline_data is None:
        return part
    return replace(part, inline_data=None, text=(part.text or "") + _IMAGE_STUB)
