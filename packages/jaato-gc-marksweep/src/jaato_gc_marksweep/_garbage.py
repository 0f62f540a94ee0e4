"""Garbage in a conversation, by rung: how much is lost with it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from jaato_gc.plugin import Group, Shortening, ToolKind, ToolUse
from jaato_gc_marksweep._settings import MarkSweepSettings

CHARACTERS_PER_TOKEN: Final = 4
"""Converts characters to tokens without counting: exact enough for a choice."""
HEAD_SHARE: Final = 0.6
"""The share of the head in what stays of a long result."""
OUTCOME: Final = 160
"""Characters that stay of a command's output, because its end says how it ended."""


class Rung(IntEnum):
    """The order of removal: a higher rung loses more."""

    DEAD = 1
    """Results that a later result replaces."""
    LONG = 2
    """The bodies of long results."""


@dataclass(slots=True)
class Garbage:
    """One result that can be shortened.

    Args:
        rung: How much is lost with it.
        reason: Why it can go, for the removal list.
        group: Its group.
        message_id: The message.
        part: The position of its part.
        how: How to shorten it.
        characters: The approximate number of characters that this frees.
    """

    rung: Rung
    reason: str
    group: Group
    message_id: str
    part: int
    how: Shortening
    characters: int

    @property
    def place(self) -> tuple[str, int]:
        """The message and the part."""
        return self.message_id, self.part

    @property
    def tokens(self) -> int:
        """The approximate number of tokens that it frees."""
        return self.characters // CHARACTERS_PER_TOKEN


def find_garbage(uses: Sequence[ToolUse], settings: MarkSweepSettings) -> list[Garbage]:
    """Returns all garbage, by rung, oldest first. Dead results are in no other rung."""
    dead = list(_dead(uses))
    gone = {(each.message_id, each.part) for each in dead}
    rest = [use for use in uses if use.result_at not in gone]
    return [*dead, *_long(rest, settings)]


# --- dead ---


def _dead(uses: Sequence[ToolUse]) -> Iterator[Garbage]:
    """Returns results that a later result replaces, oldest first."""
    later = _Later()
    found = []
    for use in reversed(uses):
        cause = later.why_dead(use)
        if cause:
            tail = OUTCOME if use.kind is ToolKind.SHELL else 0
            found.append(_of_result(Rung.DEAD, use, *cause, tail=tail))
        later.add(use)
    return reversed(found)


class _Later:
    """The tool uses after one, collected from the newest to the oldest."""

    def __init__(self) -> None:
        self._asked: set[tuple[str, str]] = set()
        self._succeeded: set[tuple[str, ...]] = set()
        self._read: set[str] = set()

    def why_dead(self, use: ToolUse) -> tuple[str, str] | None:
        """Returns why a result is dead, for the removal list and for the model; ``None`` if not."""
        if use.failed and use.attempt in self._succeeded:
            return "cleared_failed", "this attempt failed and a later one succeeded"
        if use.kind is ToolKind.EDIT:
            return None
        if use.signature in self._asked:
            return "cleared_superseded", "the same call was made again later"
        if use.kind is ToolKind.READ and use.paths[0] in self._read:
            return "cleared_superseded", "the file was read again later"
        return None

    def add(self, use: ToolUse) -> None:
        """Adds a tool use. Only an intact result can replace another one."""
        if not use.is_intact or use.failed:
            return
        self._asked.add(use.signature)
        self._succeeded.add(use.attempt)
        if use.whole_file:
            self._read.add(use.paths[0])


# --- results that can still be useful ---


def _long(uses: Iterable[ToolUse], settings: MarkSweepSettings) -> Iterator[Garbage]:
    """Yields long results, to be shortened to head and tail."""
    most = settings.max_result_tokens * CHARACTERS_PER_TOKEN
    head = int(most * HEAD_SHARE)
    for use in uses:
        if len(use.text) > most and use.is_intact:
            note = "the middle of a long result, made again by the same call"
            yield _of_result(Rung.LONG, use, "cleared_long", note, head=head, tail=most - head)


def _of_result(
    rung: Rung, use: ToolUse, reason: str, note: str, *, head: int = 0, tail: int = 0
) -> Garbage:
    characters = len(use.text) - head - tail
    return Garbage(
        rung, reason, use.group, *use.result_at, Shortening(note, head, tail), characters
    )
