"""What a strategy returned, looked at before anything is believed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaato_gc._budget import InstructionBudget
from jaato_gc._collection import cache_impact
from jaato_gc._invariants import Violation, check_collection
from jaato_gc._messages import Message
from jaato_gc._policies import InstructionSource
from jaato_gc._results import GCOutcome, GCRemovalItem, GCResult
from jaato_gc._tokens import count_tokens
from jaato_gc._triggers import Goal
from jaato_gc._turns import Layout


class NonsenseError(Exception):
    """A strategy returned something that is no answer at all."""


def read_answer(answer: Any) -> tuple[list[Message], GCResult]:
    """The history and result in what a strategy returned.

    Raises:
        NonsenseError: There are none.
    """
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise NonsenseError(f"collect returned {answer!r:.80}, not (history, result)")
    history, result = answer
    if not isinstance(result, GCResult):
        raise NonsenseError(f"collect returned {result!r:.80} as its result, not a GCResult")
    if not isinstance(history, list) or not all(isinstance(each, Message) for each in history):
        raise NonsenseError("collect returned a history that is not a list of messages")
    return history, result


def put_back(before: Sequence[Message], after: list[Message], keep: set[str]) -> list[Message]:
    """What a strategy left, and the messages it should have left.

    For strategies that know nothing of a budget, and so of locks and pins.
    """
    left = {message.message_id for message in after}
    missing = keep - left
    if not missing:
        return after
    whole: list[Message] = []
    rest = iter(after)
    upcoming = next(rest, None)
    old_ids = {message.message_id for message in before}
    for message in before:
        while upcoming is not None and upcoming.message_id not in old_ids:
            whole.append(upcoming)  # a message of the strategy's own stands before this one
            upcoming = next(rest, None)
        if upcoming is not None and upcoming.message_id == message.message_id:
            whole.append(upcoming)
            upcoming = next(rest, None)
        elif message.message_id in missing:
            whole.append(message)
    if upcoming is not None:
        whole.append(upcoming)
    return whole + list(rest)


def removal_list_of(
    after: Sequence[Message], layout: Layout, budget: InstructionBudget
) -> list[GCRemovalItem]:
    """The removal list that a strategy did not write."""
    left = {message.message_id for message in after}
    items = []
    for turn in layout.turns:
        gone = [message for message in turn.messages if message.message_id not in left]
        if gone:
            items.append(
                GCRemovalItem(
                    InstructionSource.CONVERSATION,
                    turn.key,
                    count_tokens(gone, budget.counter),
                    "collected",
                    [message.message_id for message in gone],
                )
            )
    return items


def violations(
    before: Sequence[Message],
    after: Sequence[Message],
    result: GCResult,
    protected: set[str],
    budget: InstructionBudget,
) -> list[Violation]:
    """Everything that is wrong with a collection."""
    found = check_collection(before, after, result.removal_list, protected)
    old, new = count_tokens(before, budget.counter), count_tokens(after, budget.counter)
    if new > old:
        detail = f"the history grew from {old} to {new} tokens"
        found.append(Violation("never_larger", None, detail))
    for item in result.removal_list:
        if item.source not in budget.collectable_sources:
            detail = f"{item.source} can't be removed: the host did not say how to drop it"
            found.append(Violation("source_is_collectable", None, detail))
    return found


def completed(
    result: GCResult,
    before: Sequence[Message],
    after: Sequence[Message],
    budget: InstructionBudget,
    goal: Goal,
    gc_id: str,
) -> GCResult:
    """The result with every figure recounted and every open field filled in."""
    counter = budget.counter
    old, new = count_tokens(before, counter), count_tokens(after, counter)
    total = budget.total_tokens()
    elsewhere = sum(
        item.tokens_freed
        for item in result.removal_list
        if item.source is not InstructionSource.CONVERSATION
    )
    freed = old - new + elsewhere
    outcome = result.outcome
    if outcome is None:
        wanted = goal.tokens_to_free is None or goal.tokens_to_free > 0 or goal.turns_to_remove > 0
        if not result.success:
            outcome = GCOutcome.FAILED
        elif freed <= 0:
            outcome = GCOutcome.NO_GAIN if wanted else GCOutcome.NOT_NEEDED
        else:
            outcome = GCOutcome.REACHED if freed >= (goal.tokens_to_free or 0) else GCOutcome.SHORT
    return replace(
        result,
        success=outcome.is_success,
        outcome=outcome,
        items_collected=len(result.removal_list),
        tokens_before=total,
        tokens_after=max(0, total - freed),
        cache=cache_impact(before, after, counter),
        confidence=counter.confidence,
        gc_id=gc_id,
    )
