"""Helpers for both of OpenAI's APIs."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jaato_gc import InlineData, Message, Part
from jaato_gc_formats._marks import with_part_extra
from jaato_gc_formats._wire import (
    OPAQUE,
    Fields,
    attachment_url,
    original_items,
    own_extra,
    own_fields,
)

MARK = "prompt_cache_breakpoint"
"""Field of a content block that ends a cached prefix."""
LEGACY = "legacy"
"""Key of ``extra`` that marks a call in ``function_call``: without an id, answered by name."""


def mistyped(fields: Any, wanted: Mapping[str, type]) -> str | None:
    """Returns the first field with a wrong type; ``None`` if all types are right."""
    for name, kind in wanted.items():
        if fields.get(name) is not None and not isinstance(fields[name], kind):
            return name
    return None


def with_missing_ids(messages: Iterable[Message], format: str) -> Iterator[Message]:
    """Yields the messages with an id for each call and result that has none.

    Gemini gives calls no ids: a result answers the next call of its name. A new id is derived from
    the message's id, so that it is the same in every request, even if earlier messages are removed.

    Args:
        messages: The messages.
        format: The format that they are written in. Unchanged messages of this format keep their
            original objects.
    """
    waiting: dict[str, deque[str]] = {}
    for message in messages:
        if original_items(message, format) is not None or not _lacks_ids(message, format):
            yield message
            continue
        parts: list[Part] = []
        if message.function_calls:
            waiting = {}
        for index, part in enumerate(message.parts):
            call, answer = part.function_call, part.function_response
            if call and not call.id:
                new_id = _id_from(message.message_id, index)
                waiting.setdefault(call.name, deque()).append(new_id)
                part = replace(part, function_call=replace(call, id=new_id))
            elif answer and not answer.call_id and waiting.get(answer.name):
                answer = replace(answer, call_id=waiting[answer.name].popleft())
                part = replace(part, function_response=answer)
            parts.append(part)
        yield message.with_parts(parts)


def _id_from(message_id: str, index: int) -> str:
    """Returns an id for a call of a message. Chat Completions accepts at most 40 characters."""
    digest = hashlib.sha256(f"{message_id}/{index}".encode(errors="replace")).hexdigest()
    return f"call_{digest[:24]}"


def _lacks_ids(message: Message, format: str) -> bool:
    if own_fields(message, format).get("role") == "function":
        return False
    return any(
        (
            part.function_call
            and not part.function_call.id
            and not _is_legacy_call(message, part, format)
        )
        or (part.function_response and not part.function_response.call_id)
        for part in message.parts
    )


def _is_legacy_call(message: Message, part: Part, format: str) -> bool:
    return LEGACY in own_extra(message, part, format)


def sendable_url(data: InlineData) -> str | None:
    """Returns the URL of an attachment; ``None`` if only another provider can access it."""
    if data.uri is not None:
        return data.uri if data.uri.startswith(("http://", "https://", "data:")) else None
    return attachment_url(data) if data.data else None


def attachment_note(data: InlineData) -> str:
    """Returns the text that replaces an attachment that can't be sent."""
    return f"[{data.mime_type} attachment that can't be shown here]"


def without_parsed(value: Any) -> Any:
    """Removes the fields that the SDK's ``parse`` adds, because the API refuses them."""
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


def with_content_mark(message: Message, mark: Any, format: str, text_type: str) -> Message | None:
    """Returns a message with a cache mark on its last text or result.

    Args:
        message: The message.
        mark: The mark.
        format: The format that it is written in.
        text_type: The type of a text block in a result.
    """
    for index in reversed(range(len(message.parts))):
        part = message.parts[index]
        extra = own_extra(message, part, format)
        answer = part.function_response
        if answer and isinstance(answer.result, str) and answer.result:
            kept = extra.get("content")
            blocks = [{"type": text_type, "text": len(answer.result)}] if kept is None else kept
            last = blocks[-1] if isinstance(blocks, list | tuple) and blocks else None
            if isinstance(last, dict) and "text" in last:
                marked = [*blocks[:-1], {**last, MARK: mark}]
                return with_part_extra(message, index, format, {"content": marked})
        elif part.text and not answer and extra.get("type") != "refusal" and OPAQUE not in extra:
            return with_part_extra(message, index, format, {MARK: mark})
    return None
