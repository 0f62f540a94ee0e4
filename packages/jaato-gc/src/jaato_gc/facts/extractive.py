"""Summarizes a conversation without a model, from lines of its own.

It replaces a summarizer that fails, and serves trials and tests: it costs nothing, works offline,
and returns the same text every time.
"""

import re
from collections.abc import Iterable, Sequence

from jaato_gc.messages import Message, Role, SyntheticKind, summary_text
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter, as_text, text_tokens

_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")  # CJK full stops too
_LONGEST = 160
MAX_LINES = 40


def extractive_summary(
    messages: Sequence[Message],
    max_tokens: int | None = None,
    counter: TokenCounter = DEFAULT_COUNTER,
) -> str:
    """Returns the requests, the tool calls and the beginning of each answer, one to a line.

    Earlier summaries are copied line by line. Of a long conversation, the first and the last lines
    are kept, with a note that says how many are left out.

    Args:
        messages: The conversation.
        max_tokens: The approximate size of the summary; it has at least a few lines.
        counter: Counts the tokens.
    """
    lines = [line for message in messages for line in _lines_of(message)]
    most = MAX_LINES
    summary = _abridged(lines, most)
    while max_tokens is not None and most > 4 and text_tokens(summary, counter) > max_tokens:
        most = most * 3 // 4
        summary = _abridged(lines, most)
    return summary or "(nothing was said)"


def _abridged(lines: list[str], most: int) -> str:
    if len(lines) > most:
        head = most // 4
        left_out = f"({len(lines) - most} lines left out)"
        lines = [*lines[:head], left_out, *lines[len(lines) - most + head :]]
    return "\n".join(lines)


def _lines_of(message: Message) -> Iterable[str]:
    if message.synthetic is SyntheticKind.SUMMARY:
        yield from filter(None, map(_shortened, summary_text(message).splitlines()))
        return
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
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
