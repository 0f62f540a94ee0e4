"""A summarizer without a model: deterministic, offline, good enough to try things out."""

import re
from collections.abc import Iterable, Sequence

from jaato_gc._messages import Message, Role
from jaato_gc._tokens import as_text

_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")  # CJK full stops too
_LONGEST = 160
MAX_LINES = 40


def extractive_summary(messages: Sequence[Message]) -> str:
    """What was asked, which tools were called with what, and how each answer began.

    Of a long conversation, the first and the last lines are kept, with a note of what is left out.
    """
    lines = [line for message in messages for line in _lines_of(message)]
    if len(lines) > MAX_LINES:
        head, tail = lines[: MAX_LINES // 4], lines[-(MAX_LINES * 3 // 4) :]
        lines = [*head, f"({len(lines) - MAX_LINES} lines left out)", *tail]
    return "\n".join(lines) or "(nothing was said)"


def _lines_of(message: Message) -> Iterable[str]:
    for call in message.function_calls:
        arguments = "; ".join(f"{key}={as_text(value)}" for key, value in call.args.items())
        yield f"- called {call.name}({_shortened(arguments)})"
    for answer in message.function_responses:
        if answer.is_error:
            yield f"- {answer.name} failed: {_shortened(_first_sentence(as_text(answer.result)))}"
    if message.text and message.role in (Role.USER, Role.MODEL):
        speaker = "asked" if message.role is Role.USER else "answered"
        yield f"- {speaker}: {_shortened(_first_sentence(message.text))}"


def _first_sentence(text: str) -> str:
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=1)
    return sentences[0] if sentences else ""


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
