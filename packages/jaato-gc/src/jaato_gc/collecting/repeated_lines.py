"""Finds lines of old results that a later message has too.

Agents read a file several times, and see again what they have written. The newest copy is enough:
dropping older ones loses nothing. Runs of lines are compared, not single lines, because lines such
as ``return None`` occur everywhere.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from jaato_gc.facts import strings_in
from jaato_gc.history import Group
from jaato_gc.messages import Message

RUN = 3
"""The least number of lines in a row, blank ones left out, that count as repeated."""

_LINE_START = re.compile(r"\n(?:[^\S\n]*\d+[→\t])?")
"""A line end and the number of the next line, as tools for reading files write it. Numbers before a
colon may be content."""
_NOTE = "[{} lines omitted: repeated later]"
_OMISSION = re.compile(r"\[\d+ lines omitted: repeated later\]")


class Repetition(NamedTuple):
    """A message whose results lose lines.

    Args:
        message: The message.
        shorter: The message without the lines.
        copies: Ids of the later messages that have them.
    """

    message: Message
    shorter: Message
    copies: frozenset[str]


def is_omission(line: str) -> bool:
    """Returns whether a line is a note about lines that were dropped."""
    return _OMISSION.fullmatch(line.strip()) is not None


def find_repetitions(
    messages: Sequence[Message], may_lose: Iterable[Group], changed: Iterable[str] = ()
) -> list[Repetition]:
    """Returns the messages with lines that later messages repeat, oldest first.

    A line counts as repeated if it is in a run of three that occurs, line numbers aside, in a later
    message that loses no lines itself.

    Args:
        messages: The history.
        may_lose: The groups whose results may lose lines.
        changed: Ids of messages that are already changed or removed, whose lines don't count.
    """
    losers = {message.message_id for group in may_lose for message in group.messages}
    spoiled = set(changed)
    later: dict[tuple[str, ...], str] = {}
    found = []
    for message in reversed(messages):
        message_id = message.message_id
        if message_id in spoiled:
            continue
        if message_id in losers and (repetition := _without_repeated(message, later)):
            found.append(repetition)
            continue
        for text in filter(_is_long_enough, _texts(message)):
            later.update(dict.fromkeys(_runs(_bare_lines(text)), message_id))
    found.reverse()
    return found


def _without_repeated(message: Message, later: dict[tuple[str, ...], str]) -> Repetition | None:
    copies: set[str] = set()
    parts = list(message.parts)
    for index, part in enumerate(parts):
        answer = part.function_response
        if answer and isinstance(answer.result, str) and _is_long_enough(answer.result):
            shorter = _shorter(answer.result, later, copies)
            if shorter != answer.result:
                parts[index] = replace(part, function_response=replace(answer, result=shorter))
    if not copies:
        return None
    return Repetition(message, message.with_parts(parts), frozenset(copies))


def _shorter(text: str, later: dict[tuple[str, ...], str], copies: set[str]) -> str:
    bare = _bare_lines(text)
    runs = list(_runs(bare))
    if later.keys().isdisjoint(runs):
        return text
    numbers = [number for number, line in enumerate(bare) if line]
    source: dict[int, str] = {}  # the message that repeats a line, by the number of the line
    for first, run in enumerate(runs):
        if copy := later.get(run):
            source.update(dict.fromkeys(numbers[first : first + RUN], copy))
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and (end in source or (end > at and not lines[end].strip())):
            end += 1
        note = _NOTE.format(end - at)
        if end > at and sum(map(len, lines[at:end])) > 2 * len(note):
            kept.append(note)
            copies.update(source[line] for line in range(at, end) if line in source)
        else:
            end = max(end, at + 1)
            kept += lines[at:end]
        at = end
    return "\n".join(kept)


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        if part.text:
            yield part.text
        if part.function_call:
            yield from strings_in(part.function_call.args)
        if part.function_response:
            yield from strings_in(part.function_response.result)


def _is_long_enough(text: str) -> bool:
    """Returns whether a text may have a run of lines: most messages are too short."""
    return text.count("\n") >= RUN - 1


def _bare_lines(text: str) -> list[str]:
    """Returns the lines of a text without line numbers and trailing whitespace."""
    _, *lines = _LINE_START.split(f"\n{text}")
    return list(map(str.rstrip, lines))


def _runs(bare_lines: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Returns every run of lines, blank ones left out."""
    lines = [line for line in bare_lines if line]
    return zip(*(lines[first:] for first in range(RUN)), strict=False)
