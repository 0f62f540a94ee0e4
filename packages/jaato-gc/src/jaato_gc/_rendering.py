"""A conversation as text, with nothing left out: what a summarizer is shown."""

from collections.abc import Callable, Iterable

from jaato_gc._messages import Message, Part
from jaato_gc._tokens import as_text

SEPARATOR = "\n\n"
"""What stands between messages."""


def render(messages: Iterable[Message]) -> str:
    """The messages as text: roles, texts, thoughts, calls with arguments, results."""
    return SEPARATOR.join(render_message(message) for message in messages)


def render_message(message: Message) -> str:
    """One message as text."""
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
    """The text in pieces within a limit, of about one length, cut at line ends where possible."""
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
