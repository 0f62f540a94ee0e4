"""Joins the chunks of a streamed response of Google's API."""

from collections.abc import Iterable

from jaato_gc_formats._errors import FormatError
from jaato_gc_formats._wire import Fields


def joined(chunks: Iterable[Fields]) -> Fields | None:
    """Returns the response that some chunks make up; ``None`` if its end is missing."""
    response: Fields = {}
    parts: list[Fields] = []
    finish = None
    for chunk in chunks:
        response |= {name: value for name, value in chunk.items() if value is not None}
        for candidate in (chunk.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                _add_part(parts, part)
            finish = candidate.get("finishReason") or finish
    if finish is None:
        is_blocked = bool(response.get("promptFeedback"))
        return response if is_blocked else None
    content = {"role": "model", "parts": parts}
    return {**response, "candidates": [{"content": content, "finishReason": finish}]}


def _add_part(parts: list[Fields], part: Fields) -> None:
    """Adds a part. Text continues the part before it, unless one of the two is signed."""
    call = part.get("functionCall") or {}
    if call.get("partialArgs") or call.get("willContinue"):
        raise FormatError(
            "the arguments of a call are streamed in pieces, which can't be joined: make the call "
            "without stream_function_call_arguments"
        )
    if not _is_plain_text(part):
        parts.append(part)
    elif parts and _is_plain_text(parts[-1]) and _is_thought(parts[-1]) == _is_thought(part):
        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
    elif part["text"]:
        parts.append(part)


def _is_plain_text(part: Fields) -> bool:
    return "text" in part and part.keys() <= {"text", "thought"}


def _is_thought(part: Fields) -> bool:
    return bool(part.get("thought"))
