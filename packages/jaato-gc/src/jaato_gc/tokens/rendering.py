"""Messages as text: for models, summarizers and displays."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from jaato_gc.messages import Message, Part

SEPARATOR = "\n\n"
"""The text between messages."""

# Made once: `json.dumps` with options makes an encoder for every call.
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_RENDERINGS: tuple[Callable[[Any], str], ...] = (_as_json, str)


def as_text(value: Any) -> str:
    """Returns tool arguments or results as the model sees them: strings unchanged, else JSON."""
    if isinstance(value, str):
        return value
    for rendering in _RENDERINGS:
        try:
            return rendering(value)
        except Exception:  # odd keys, cycles, absurd depth, a broken __str__
            continue
    return f"<{type(value).__name__} that can't be shown>"


def render(messages: Iterable[Message]) -> str:
    """Returns messages as text: roles, texts, thoughts, calls with arguments, results."""
    return SEPARATOR.join(render_message(message) for message in messages)


def render_message(message: Message) -> str:
    """Returns one message as text."""
    return "\n".join([f"[{message.role}]", *(_render_part(part) for part in message.parts)])


def _render_part(part: Part) -> str:
    lines = []
    if part.thought:
        lines.append(f"(thought) {part.thought}")
    if part.text:
        lines.append(part.text)
    if call := part.function_call:
        lines.append(f"(calls {call.name}) {as_text(call.args)}")
    if answer := part.function_response:
        outcome = "error from" if answer.is_error else "result of"
        lines.append(f"({outcome} {answer.name}) {as_text(answer.result)}")
    if part.inline_data:
        lines.append(f"(attachment {part.inline_data.mime_type})")
    return "\n".join(lines)


def split_text(text: str, limit: int, size_of: Callable[[str], int]) -> list[str]:
    """Returns the text in pieces of similar length within a limit, cut at line ends if possible."""
    size = size_of(text)
    if size <= limit or len(text) < 2:
        return [text]
    width = -(-len(text) // (size // limit + 1))
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + width
        if end < len(text):
            end = text.rfind("\n", start + width // 2, end) + 1 or end
        pieces += split_text(text[start:end], limit, size_of)  # some text is denser than the rest
        start = end
    return pieces
