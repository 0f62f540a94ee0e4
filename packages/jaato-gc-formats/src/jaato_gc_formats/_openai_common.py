"""What both of OpenAI's APIs need of messages that came from elsewhere."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jaato_gc import InlineData, Message, Part
from jaato_gc_formats._refusals import Refusal
from jaato_gc_formats._wire import Fields, attachment_url, own_extra, own_fields, untouched_items

LEGACY = "legacy"
"""Marks a call of the kind that has no id in Chat Completions, and is answered by name."""


def mistyped(fields: Any, wanted: Mapping[str, type]) -> str | None:
    """The first field that is there and not of its type; ``None`` if all are sound."""
    for name, kind in wanted.items():
        if fields.get(name) is not None and not isinstance(fields[name], kind):
            return name
    return None


def invalid_type(path: str) -> Refusal:
    """What both APIs say to a field of another type than theirs."""
    return Refusal("invalid_type", path, f"Invalid type for '{path}'.")


def with_missing_ids(messages: Iterable[Message], format: str) -> Iterator[Message]:
    """The messages, with an id for each call and result that has none.

    Gemini gives calls no ids: a result answers the next call of its name. A new id follows from the
    message's own, so that it is the same in every request, whatever was collected before it.

    Args:
        messages: The messages.
        format: The format they are written in; its own untouched messages are left alone.
    """
    waiting: dict[str, deque[str]] = {}
    for message in messages:
        if untouched_items(message, format) is not None or not _lacks_ids(message, format):
            yield message
            continue
        parts: list[Part] = []
        if message.function_calls:
            waiting = {}
        for index, part in enumerate(message.parts):
            call, answer = part.function_call, part.function_response
            if call and call.id is None:
                new_id = _id_from(message.message_id, index)
                waiting.setdefault(call.name, deque()).append(new_id)
                part = replace(part, function_call=replace(call, id=new_id))
            elif answer and answer.call_id is None and waiting.get(answer.name):
                answer = replace(answer, call_id=waiting[answer.name].popleft())
                part = replace(part, function_response=answer)
            parts.append(part)
        yield message.with_parts(parts)


def _id_from(message_id: str, index: int) -> str:
    """An id for a call of a message: Chat Completions takes no more than 40 characters."""
    digest = hashlib.sha256(f"{message_id}/{index}".encode(errors="replace")).hexdigest()
    return f"call_{digest[:24]}"


def _lacks_ids(message: Message, format: str) -> bool:
    if own_fields(message, format).get("role") == "function":
        return False
    return any(
        (
            part.function_call
            and part.function_call.id is None
            and not _legacy(message, part, format)
        )
        or (part.function_response and part.function_response.call_id is None)
        for part in message.parts
    )


def _legacy(message: Message, part: Part, format: str) -> bool:
    return LEGACY in own_extra(message, part, format)


def sendable_url(data: InlineData) -> str | None:
    """Where an attachment of another provider's can be had: ``None`` if only that one has it."""
    if data.uri is not None:
        return data.uri if data.uri.startswith(("http://", "https://", "data:")) else None
    return attachment_url(data) if data.data else None


def note(data: InlineData) -> str:
    """What is said in the place of an attachment that can't be sent here."""
    return f"[{data.mime_type} attachment that can't be shown here]"


def without_parsed(value: Any) -> Any:
    """An answer without what the SDK's ``parse`` put into it: the API refuses to see it again."""
    if isinstance(value, list):
        return [without_parsed(each) for each in value]
    if isinstance(value, dict):
        return _without_parsed_fields(value)
    return value


def _without_parsed_fields(fields: Fields) -> Fields:
    return {
        name: without_parsed(value) if name in ("content", "tool_calls", "function") else value
        for name, value in fields.items()
        if name not in ("parsed", "parsed_arguments")
    }
