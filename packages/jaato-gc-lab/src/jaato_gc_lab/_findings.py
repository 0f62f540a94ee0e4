"""Finds tool output that a rule frees, and reads of files that were edited later.

The rules are those of gc_marksweep and of core, under the protection of a collection: the last
calls are never among the findings.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from jaato_gc import GCConfig, GCTriggerReason, InstructionBudget, Message
from jaato_gc.plugin import (
    Collection,
    ToolKind,
    ToolUse,
    find_tool_uses,
)
from jaato_gc_lab._subjects import part_tokens, subject_of
from jaato_gc_marksweep import Garbage, MarkSweepGCPlugin, MarkSweepSettings, Rung, find_garbage

STRATEGY = MarkSweepGCPlugin.name
EVERY_STRATEGY = "every strategy"
IDENTICAL = "identical"
"""The reason of core for results that a later result repeats as a whole."""
REPEATED_LINES = "cleared_repeated"
"""The reason of gc_marksweep for lines that occur again later."""

Place = tuple[str, int]
"""Place of a result: the id of its message and the position of its part."""


class FindingKind(StrEnum):
    """Why a result is not needed as it is, in display order."""

    SUPERSEDED = "superseded"
    """The same call was made again later, or the file was read again."""
    DUPLICATE = "duplicate"
    """A later result has the same text."""
    FAILED = "failed"
    """The attempt failed, and a later one succeeded."""
    REPEATED = "repeated"
    """Lines of it occur again in a later message."""
    LONG = "long"
    """It is longer than ``max_result_tokens``; head and tail are enough."""
    STALE = "stale"
    """It shows a file that was edited later. No rule frees it: the rest of the file still holds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A tool result that is not needed as it is.

    Args:
        kind: Why.
        strategy: The strategy that frees it; ``None`` if none does.
        reason: The rule, as the strategy names it in its removal list; ``None`` if there is none.
        position: Position of the message, starting at 0.
        tool: Name of the tool.
        about: Subject of the call, such as a path or a command.
        tokens: Tokens of the result.
        freed_tokens: Tokens that the rule frees.
    """

    kind: FindingKind
    strategy: str | None
    reason: str | None
    position: int
    tool: str
    about: str
    tokens: int
    freed_tokens: int


def find_findings(history: Sequence[Message], budget: InstructionBudget) -> list[Finding]:
    """Returns all findings by kind, oldest first. What they free adds up.

    Args:
        history: The messages.
        budget: The budget that they are booked in. Its counter counts the tokens.
    """
    settings = MarkSweepSettings()
    config = GCConfig(target_percent=0)  # all that the rules free
    collection = Collection.of(history, {}, config, GCTriggerReason.THRESHOLD, budget)
    uses = find_tool_uses(collection.groups, settings.tools)
    garbage = find_garbage(uses, settings)
    freed = [  # in the order of a session, because a rule leaves less for those after it
        *_freed_by(collection, IDENTICAL, collection.shorten_identical),
        *_shortened(collection, garbage, Rung.DEAD),
        *_freed_by(
            collection, REPEATED_LINES, partial(collection.drop_repeated_lines, REPEATED_LINES)
        ),
        *_shortened(collection, garbage, Rung.LONG),
    ]
    dead = {each.place for each in garbage if each.rung is Rung.DEAD}
    positions = {message.message_id: at for at, message in enumerate(history)}
    use_at = {use.result_at: use for use in uses}

    def finding(place: Place, kind: FindingKind, reason: str | None, tokens: int) -> Finding:
        message_id, part = place
        at, use = positions[message_id], use_at[place]
        size = part_tokens(history[at].parts[part], budget.counter)
        owner = EVERY_STRATEGY if reason == IDENTICAL else STRATEGY
        return Finding(
            kind,
            owner if reason else None,
            reason,
            at,
            use.call.name,
            subject_of(use),
            size,
            tokens,
        )

    found = [
        *(
            finding(each.place, _kind_of(each.reason), each.reason, each.tokens)
            for each in freed
            if each.place in use_at  # in an invalid history, a result may answer no call
        ),
        *(finding(use.result_at, FindingKind.STALE, None, 0) for use in _stale(uses, dead)),
    ]
    order = list(FindingKind)
    return sorted(found, key=lambda each: (order.index(each.kind), each.position))


def _kind_of(reason: str) -> FindingKind:
    if reason == IDENTICAL:
        return FindingKind.DUPLICATE
    return FindingKind(reason.removeprefix("cleared_"))


class _Freed(NamedTuple):
    """What a rule frees in one result."""

    place: Place
    reason: str
    tokens: int


def _shortened(collection: Collection, garbage: Sequence[Garbage], rung: Rung) -> Iterator[_Freed]:
    """Shortens the garbage of a rung, and yields what that frees."""
    for each in garbage:
        if each.rung is rung:
            before = collection.tokens_freed
            parts = {each.message_id: {each.part}}
            collection.shorten(each.group, each.reason, each.how, parts=parts)
            if tokens := collection.tokens_freed - before:
                yield _Freed(each.place, each.reason, tokens)


def _freed_by(collection: Collection, reason: str, rule: Callable[[], object]) -> Iterator[_Freed]:
    """Runs a rule for the whole history, and yields what it frees."""
    counter, messages = collection.counter, collection.history
    before = [collection.current(message) for message in messages]
    rule()
    for message, whole in zip(messages, before, strict=True):
        pairs = zip(whole.parts, collection.current(message).parts, strict=True)
        for part, (old, new) in enumerate(pairs):
            if new is not old:
                tokens = part_tokens(old, counter) - part_tokens(new, counter)
                yield _Freed((message.message_id, part), reason, tokens)


def _stale(uses: Sequence[ToolUse], dead: set[Place]) -> Iterator[ToolUse]:
    """Yields the reads of files that were edited later, and that no later read replaces."""
    edited: set[str] = set()
    for use in reversed(uses):
        if use.failed:
            continue
        if use.kind is ToolKind.EDIT:
            edited.update(use.paths)
        is_current = use.result_at in dead or edited.isdisjoint(use.paths)
        if use.kind is ToolKind.READ and not is_current:
            yield use
