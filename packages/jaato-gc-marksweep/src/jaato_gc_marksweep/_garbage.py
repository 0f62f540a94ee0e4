"""What in a conversation is garbage, or nearly so: the rungs of the sweep."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from jaato_gc import Clearing, Group
from jaato_gc_marksweep._settings import MarkSweepSettings
from jaato_gc_marksweep._tool_uses import Kind, ToolUse, strings_in

CHARACTERS_PER_TOKEN: Final = 4
"""To look at sizes without counting tokens: near enough to choose by."""
SAME_TEXT: Final = 200
"""Results that are shorter are alike by chance."""
HEAD_SHARE: Final = 0.6
"""Of what stays of a long result, the beginning gets this share."""
OUTCOME: Final = 160
"""Characters that stay of a command's output: its last words say how it ended."""


class Rung(IntEnum):
    """What goes first: the higher, the more is lost."""

    DEAD = 1
    """Results that something later has taken the place of."""
    LONG = 2
    """The bodies of long results."""
    APPLIED = 3
    """Arguments of edits that succeeded."""
    STALE = 4
    """What was read of files that were edited later."""


@dataclass(slots=True)
class Garbage:
    """One result, or the arguments of one call, that can be cleared.

    Args:
        rung: How much is lost with it.
        reason: Why it can go, for the removal list.
        group: The exchange it is in.
        message_id: The message.
        part: The position of its part.
        how: What becomes of it.
        characters: About how much that frees.
    """

    rung: Rung
    reason: str
    group: Group
    message_id: str
    part: int
    how: Clearing
    characters: int

    @property
    def place(self) -> tuple[str, int]:
        """Where it is."""
        return self.message_id, self.part

    @property
    def tokens(self) -> int:
        """About how much it frees."""
        return self.characters // CHARACTERS_PER_TOKEN


def find_garbage(uses: Sequence[ToolUse], settings: MarkSweepSettings) -> list[Garbage]:
    """All that can be cleared, by rung, oldest first. What is dead is in no other rung."""
    dead = list(_dead(uses))
    gone = {(each.message_id, each.part) for each in dead}
    rest = [use for use in uses if use.result_at not in gone]
    return [*dead, *_long(rest, settings), *_applied(uses, settings), *_stale(rest)]


# --- dead ---


def _dead(uses: Sequence[ToolUse]) -> Iterator[Garbage]:
    """Results that something later has taken the place of, oldest first."""
    later = _Later()
    found = []
    for use in reversed(uses):
        cause = later.takes_the_place_of(use)
        if cause:
            tail = OUTCOME if use.kind is Kind.SHELL else 0
            found.append(_of_result(Rung.DEAD, use, *cause, tail=tail))
        later.add(use, stays=not cause)
    return reversed(found)


class _Later:
    """What came after a tool use, while going through them from the newest to the oldest."""

    def __init__(self) -> None:
        self._asked: set[tuple[str, str]] = set()
        self._succeeded: set[tuple[str, ...]] = set()
        self._read: set[str] = set()
        self._texts: set[str] = set()

    def takes_the_place_of(self, use: ToolUse) -> tuple[str, str] | None:
        """Why a result is dead, if it is: for the removal list, and for the model."""
        if use.failed and use.attempt in self._succeeded:
            return "cleared_failed", "this attempt failed and a later one succeeded"
        if use.kind is Kind.EDIT:
            return None
        if use.signature in self._asked:
            return "cleared_superseded", "the same call was made again later"
        if use.kind is Kind.READ and use.paths[0] in self._read:
            return "cleared_superseded", "the file was read again later"
        if len(use.text) >= SAME_TEXT and use.text in self._texts:
            return "cleared_duplicate", "the same text came again later"
        return None

    def add(self, use: ToolUse, *, stays: bool) -> None:
        """Note a tool use; only what is still there can take the place of anything."""
        if not use.is_intact:
            return
        if stays:
            self._texts.add(use.text)
        if use.failed:
            return
        self._asked.add(use.signature)
        self._succeeded.add(use.attempt)
        if use.whole_file:
            self._read.add(use.paths[0])


# --- what can still be of use ---


def _long(uses: Iterable[ToolUse], settings: MarkSweepSettings) -> Iterator[Garbage]:
    """Results of which only head and tail should stay."""
    most = settings.max_result_tokens * CHARACTERS_PER_TOKEN
    head = int(most * HEAD_SHARE)
    for use in uses:
        if len(use.text) > most and use.is_intact:
            note = "the middle of a long result, made again by the same call"
            yield _of_result(Rung.LONG, use, "cleared_long", note, head=head, tail=most - head)


def _applied(uses: Iterable[ToolUse], settings: MarkSweepSettings) -> Iterator[Garbage]:
    """Arguments of edits that succeeded: the file has them now."""
    most = settings.max_argument_tokens * CHARACTERS_PER_TOKEN
    head = int(most * HEAD_SHARE)
    how = Clearing("the edit was applied", head, most - head, what="arguments")
    for use in uses:
        if use.kind is Kind.EDIT and not use.failed:
            excess = sum(max(0, len(each) - most) for each in strings_in(use.call.args))
            if excess > 0:
                yield Garbage(Rung.APPLIED, "cleared_applied", use.group, *use.call_at, how, excess)


def _stale(uses: Sequence[ToolUse]) -> Iterator[Garbage]:
    """What was read of files that were edited later, oldest first."""
    edited: set[str] = set()
    found = []
    for use in reversed(uses):
        if use.kind is Kind.READ and use.paths[0] in edited:
            note = "the file was edited since: read it again"
            found.append(_of_result(Rung.STALE, use, "cleared_stale", note))
        elif use.kind is Kind.EDIT and not use.failed:
            edited.update(use.paths)
    return reversed(found)


def _of_result(
    rung: Rung, use: ToolUse, reason: str, note: str, *, head: int = 0, tail: int = 0
) -> Garbage:
    characters = len(use.text) - head - tail
    return Garbage(rung, reason, use.group, *use.result_at, Clearing(note, head, tail), characters)
