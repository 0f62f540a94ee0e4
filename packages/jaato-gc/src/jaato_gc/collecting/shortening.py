"""Shortening: a shorter form of tool results or arguments, so that calls keep their results."""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from jaato_gc.errors import MessageError
from jaato_gc.messages import Message, Part, serialised
from jaato_gc.tokens import TokenCounter, as_text
from jaato_gc.tokens.counting import DEFAULT_COSTS, FrameCosts, part_tokens

WORTH_SHORTENING = 400
"""Characters: shorter texts hold many names and free next to nothing."""
_LONGEST_NOTE = 8_000
# A note has no brackets and a maximal length: text that only begins like a stub costs no more than
# other text, and no tool can present a long result as shortened already.
_STUB = re.compile(
    r"\[([0-9]{1,15}) characters cleared: "
    rf"[^\n\[\]]{{0,{_LONGEST_NOTE}}}?(?:; recall key ([0-9a-f]{{16}}))?\]"
)
_IN_A_NOTE = str.maketrans("[]\n", "() ")
_IMAGE_STUB = "[attachment cleared to free context space]"

Shortens = Literal["results", "arguments"]
"""Tool results, or the long arguments of calls."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """How to shorten tool results or arguments.

    Args:
        note: Tells the model why, or how to get the content back.
        head: How much to keep from the beginning.
        tail: How much to keep from the end.
        what: Tool results, or the long arguments of calls.
        unit: Whether ``head`` and ``tail`` are numbers of characters or of lines.
    """

    note: str = "to free context space"
    head: int = 0
    tail: int = 0
    what: Shortens = "results"
    unit: Literal["characters", "lines"] = "characters"


STUB_ONLY = Shortening()
"""Leaves nothing but a stub."""


def shortened(
    message: Message,
    how: Shortening = STUB_ONLY,
    *,
    parts: Container[int] | None = None,
    key: str | None = None,
) -> Message:
    """Returns the message with results or arguments shortened; itself if it has none.

    The same content always gives the same stub, and a stub stays unchanged, so the prompt cache
    keeps matching. Texts, thoughts and calls that a provider signed stay unchanged.

    Args:
        message: The message.
        how: How to shorten it.
        parts: Positions of the parts to shorten; ``None``: all.
        key: The stash key of the whole message, if it is stashed.
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


def _is_over(parts: Sequence[Part], chosen: Container[int]) -> bool:
    """Returns whether no result stays whole, so that attachments belong to none."""
    return all(
        index in chosen or _STUB.fullmatch(as_text(part.function_response.result))
        for index, part in enumerate(parts)
        if part.function_response
    )


def without_shortenable(message: Message) -> Message:
    """Returns a message without what shortening changes: results, arguments, tool attachments."""
    kept: list[Part] = []
    for part in message.parts:
        if call := part.function_call:
            if not part.is_signed:
                part = replace(part, function_call=replace(call, args={}))
        elif answer := part.function_response:
            part = replace(part, function_response=replace(answer, result=None))
        elif message.is_tool_output:
            text = (part.text or "").removesuffix(_IMAGE_STUB)
            part = replace(part, inline_data=None, text=text or None)
        kept.append(part)
    return message.with_parts(kept)


def with_shorter_values(own: Message, other: Message, counter: TokenCounter) -> Message:
    """Returns a message with the results and arguments that another form of it has.

    The other form may also lack attachments of a tool.

    Raises:
        MessageError: Anything else differs, or a result or an argument is larger.
    """
    form = own
    if len(own.parts) == len(other.parts):
        is_tool_output = own.is_tool_output
        form = own.with_parts(
            _with_values(*pair, is_tool_output=is_tool_output)
            for pair in zip(own.parts, other.parts, strict=True)
        )
    costs: FrameCosts = getattr(counter, "costs", DEFAULT_COSTS)
    has_larger = any(
        part_tokens(new, counter, costs) > part_tokens(old, counter, costs)
        for new, old in zip(form.parts, own.parts, strict=True)
        if new is not old and new.inline_data is old.inline_data
    )
    if has_larger or serialised(form) != serialised(other):
        raise MessageError(
            f"message {own.message_id!r} was changed: only results and arguments can be shortened"
        )
    return form


def _with_values(own: Part, other: Part, *, is_tool_output: bool) -> Part:
    """Returns a part with what may differ in another form of it: the parts correspond."""
    call, other_call = own.function_call, other.function_call
    if call and other_call:
        if own.is_signed or call.args == other_call.args:
            return own
        return replace(own, function_call=replace(call, args=other_call.args))
    answer, other_answer = own.function_response, other.function_response
    if answer and other_answer:
        if answer.result == other_answer.result:
            return own
        return replace(own, function_response=replace(answer, result=other_answer.result))
    if is_tool_output and own.inline_data and not other.inline_data:
        stub = _without_attachment(own)
        return stub if other.text == stub.text else replace(own, inline_data=None)
    return own


def _has(part: Part, how: Shortening) -> bool:
    if how.what == "results":
        return part.function_response is not None
    return part.function_call is not None and not part.is_signed


def _shorter(part: Part, how: Shortening, key: str | None) -> Part:
    if answer := part.function_response:
        text = as_text(answer.result)
        short = shortened_text(text, how, key)
        if short is text:
            return part
        return replace(part, function_response=replace(answer, result=short))
    if call := part.function_call:
        return replace(part, function_call=replace(call, args=_arguments(call.args, how, key)))
    return part


def _arguments(value: Any, how: Shortening, key: str | None) -> Any:
    """Returns arguments of the same shape, with their long texts shortened."""
    if isinstance(value, str):
        return shortened_text(value, how, key)
    if isinstance(value, dict):
        return {name: _arguments(nested, how, key) for name, nested in value.items()}
    if isinstance(value, list):
        return [_arguments(nested, how, key) for nested in value]
    return value


def shortened_text(text: str, how: Shortening = STUB_ONLY, key: str | None = None) -> str:
    """Returns head and tail of a text around a stub; the text itself if it is not worth it."""
    earlier = _STUB.search(text)
    if earlier and earlier[0] == text:
        return text
    first = last = text
    length = len(text)
    if earlier:  # shortening again counts from the original and keeps its key
        first = text[: earlier.start()].removesuffix("\n")
        last = text[earlier.end() :].removeprefix("\n")
        length = len(first) + int(earlier[1]) + len(last)
        key = earlier[2] or key
    if length < WORTH_SHORTENING:
        return text
    if how.unit == "lines":
        head = "\n".join(first.split("\n")[: how.head])
        tail = "\n".join(last.split("\n")[-how.tail :]) if how.tail else ""
    else:
        head, tail = _head(first, how.head), _tail(last, how.tail)
    recall = f"; recall key {key}" if key else ""
    note = how.note.translate(_IN_A_NOTE)[:_LONGEST_NOTE]
    stub = f"[{length - len(head) - len(tail)} characters cleared: {note}{recall}]"
    short = "\n".join(filter(None, [head, stub, tail]))
    return short if len(short) < len(text) else text


def _head(text: str, length: int) -> str:
    """Returns the beginning of a text, in whole lines if that keeps half of it or more."""
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
