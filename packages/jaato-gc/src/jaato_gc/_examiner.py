"""What a strategy returned, looked at before anything is believed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

from jaato_gc._account import cache_impact, outcome_of
from jaato_gc._budget import InstructionBudget
from jaato_gc._change import Change
from jaato_gc._clearing import never_cleared
from jaato_gc._invariants import Violation, check_change
from jaato_gc._messages import Message, Role
from jaato_gc._policies import GCPolicy, InstructionSource
from jaato_gc._results import GCOutcome, GCRemovalItem, GCResult, Shortfall
from jaato_gc._source_entry import SourceEntry
from jaato_gc._tokens import count_tokens, message_tokens
from jaato_gc._triggers import Goal
from jaato_gc._turns import Hold, Layout

Held = Mapping[str, tuple[Message, Hold]]
"""What must stay, by message id, and why."""


class NonsenseError(Exception):
    """A strategy returned something that is no answer at all."""


def read_answer(answer: Any) -> tuple[list[Message], GCResult]:
    """The history and result in what a strategy returned, in lists that it does not hold.

    Raises:
        NonsenseError: There are none.
    """
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise NonsenseError(f"collect returned {answer!r:.80}, not (history, result)")
    history, result = answer
    if not isinstance(result, GCResult):
        raise NonsenseError(f"collect returned {result!r:.80} as its result, not a GCResult")
    if not isinstance(history, list) or not _are_all(Message, history):
        raise NonsenseError("collect returned a history that is not a list of messages")
    return list(history), _checked(result)


def _checked(result: GCResult) -> GCResult:
    for name, kinds in _KINDS.items():
        if not isinstance(value := getattr(result, name), kinds):
            raise NonsenseError(f"its result has {name}={value!r:.80}")
    outcome = result.outcome
    success = bool(result.success) and (outcome is None or outcome.is_success)
    if not success and (outcome is None or outcome.is_success):
        outcome = GCOutcome.FAILED
    return replace(
        result,
        success=success,
        outcome=outcome,
        details=dict(result.details),
        removal_list=[_checked_item(item) for item in result.removal_list] if success else [],
    )


_KINDS: dict[str, type | tuple[type, ...]] = {
    "outcome": (GCOutcome, NoneType),
    "details": dict,
    "error": (str, NoneType),
    "notification": (str, NoneType),
    "shortfall": (Shortfall, NoneType),
    "removal_list": list,
}


def _checked_item(item: Any) -> GCRemovalItem:
    if isinstance(item, GCRemovalItem) and _are_all(str, item.message_ids):
        try:
            return GCRemovalItem(
                InstructionSource(item.source),
                item.child_key,
                item.tokens_freed,
                item.reason,
                tuple(item.message_ids),
                item.action,
                item.keep,
            )
        except ValueError:  # there is no such source
            pass
    raise NonsenseError(f"its removal list holds {item!r:.80}")


def _are_all(kind: type, values: Iterable[object]) -> bool:
    others = set(map(type, values)) - {kind}
    return not others or all(issubclass(each, kind) for each in others)


def put_back(before: Sequence[Message], after: list[Message], keep: set[str]) -> list[Message]:
    """What a strategy left, and the messages it should have left.

    For strategies that know nothing of a budget, and so of locks and pins. If an answer comes first
    then, the user message before it comes back, too.
    """
    whole = _merged(before, after, keep)
    first = next((message for message in whole if message.role is not Role.SYSTEM), None)
    if first is None or first.role is Role.USER:
        return whole
    opening = None
    for message in before:
        if message.message_id == first.message_id:
            break
        if message.role is Role.USER and not message.is_tool_output:
            opening = message.message_id
    return _merged(before, after, keep | {opening}) if opening else whole


def _merged(before: Sequence[Message], after: list[Message], keep: set[str]) -> list[Message]:
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
                    tuple(message.message_id for message in gone),
                )
            )
    return items


def with_message_ids(
    result: GCResult, after: Sequence[Message], layout: Layout, budget: InstructionBudget
) -> GCResult:
    """The result with the messages of items that name only a turn or an entry of the budget."""
    if all(item.message_ids for item in result.removal_list):
        return result
    left = {message.message_id for message in after}
    turns = {turn.key: turn for turn in layout.turns}
    items = []
    for item in result.removal_list:
        if item.source is InstructionSource.CONVERSATION and not item.message_ids:
            turn, entry = turns.get(item.child_key or ""), _entry_of(item, budget)
            meant = (
                [message.message_id for message in turn.messages]
                if turn
                else [each for one in (entry.walk() if entry else ()) for each in one.message_ids]
            )
            gone = [each for each in meant if each not in left]
            item = replace(item, message_ids=tuple(gone or meant))
        items.append(item)
    return replace(result, removal_list=items)


def _entry_of(item: GCRemovalItem, budget: InstructionBudget) -> SourceEntry | None:
    if item.child_key is None:
        return budget.get_entry(item.source)
    return budget.get_child(item.source, item.child_key)


def violations(
    before: Sequence[Message],
    after: Sequence[Message],
    change: Change,
    result: GCResult,
    held: Held,
    budget: InstructionBudget,
) -> list[Violation]:
    """Everything that is wrong with a collection."""
    found = check_change(change, before, after, result.removal_list, held.keys())
    found.extend(_protected_unaltered(change.come, held))
    gone, come = (count_tokens(each, budget.counter) for each in (change.gone, change.come))
    if come > gone:
        detail = f"the history grew: {come} tokens stand in the place of {gone}"
        found.append(Violation("never_larger", None, detail))
    for item in result.removal_list:
        if item.source not in budget.collectable_sources:
            detail = f"{item.source} can't be removed: the host did not say how to drop it"
            found.append(Violation("source_is_collectable", None, detail))
        elif item.source is not InstructionSource.CONVERSATION:
            found.extend(_source_may_go(item, budget))
    return found


def _protected_unaltered(come: Sequence[Message], held: Held) -> Iterator[Violation]:
    """Of what is protected, only results and arguments of recent calls may be cleared."""
    for now in come:
        if now.message_id not in held:
            continue
        message, hold = held[now.message_id]
        if now == message:
            continue
        if hold is not Hold.RECENT or never_cleared(now) != never_cleared(message):
            detail = "it was protected and is not what it was"
            yield Violation("protected_unaltered", message.message_id, detail)


def _source_may_go(item: GCRemovalItem, budget: InstructionBudget) -> Iterator[Violation]:
    name = item.source if item.child_key is None else f"{item.source}/{item.child_key}"
    entry = _entry_of(item, budget)
    if entry is None:
        yield Violation("removal_list_is_true", None, f"there is no {name} to remove")
    elif any(each.binding_policy() is GCPolicy.LOCKED for each in entry.walk()):
        yield Violation("protected_kept", None, f"{name} is or holds something LOCKED")


def completed(
    result: GCResult,
    before: Sequence[Message],
    after: Sequence[Message],
    change: Change,
    budget: InstructionBudget,
    goal: Goal,
    gc_id: str,
) -> GCResult:
    """The result with every figure recounted and every open field filled in."""
    counter = budget.counter
    total = budget.total_tokens()
    freed_by = {message.message_id: message_tokens(message, counter) for message in change.gone}
    for message in change.come:
        tokens = message_tokens(message, counter)
        freed_by[message.message_id] = freed_by.get(message.message_id, 0) - tokens
    elsewhere: dict[int, int] = {}
    for item in result.removal_list:  # our own copies, made when the answer was read
        if item.source is InstructionSource.CONVERSATION:
            freed = sum([freed_by.get(message_id, 0) for message_id in item.message_ids])
        else:
            entry = _entry_of(item, budget)
            under = {id(each): each.tokens for each in (entry.walk() if entry else ())}
            freed = sum(under.values())
            elsewhere |= under  # once each, should two items overlap
        item.tokens_freed = freed
    freed = sum(freed_by.values()) + sum(elsewhere.values())
    stays = {message.message_id for message in change.come}
    # How it ended shows in the facts; a strategy is believed only if it says that it failed.
    outcome = outcome_of(
        goal,
        freed=freed,
        turns_removed=sum(
            [each.opens_turn for each in change.gone if each.message_id not in stays]
        ),
        anything_taken=freed > 0,
    )
    return replace(
        result,
        outcome=outcome if result.success else result.outcome or outcome,
        items_collected=len(result.removal_list),
        tokens_before=total,
        tokens_after=max(0, total - freed),
        cache=cache_impact(before, after, counter),
        confidence=counter.confidence,
        gc_id=gc_id,
    )
