"""A conversation as text, with nothing left out: what a summarizer is shown."""

from collections.abc import Iterable

from jaato_gc._messages import Message, Part
from jaato_gc._tokens import as_text


def render(messages: Iterable[Message]) -> str:
    """The messages as text: roles, texts, thoughts, calls with arguments, results."""
    return "\n\n".join(render_message(message) for message in messages)


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


def split_text(text: str, fits: int) -> list[str]:
    """The text in pieces of at most so many characters, cut at line ends where there are some."""
    pieces: list[str] = []
    while len(text) > fits:
        cut = text.rfind("\n", 0, fits)
        cut = cut + 1 if cut > fits // 2 else fits
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text] if text else pieces
