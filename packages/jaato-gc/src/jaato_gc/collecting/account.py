"""The account of a collection: its edits and its result, recounted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc.budget import HostBudget, InstructionBudget
from jaato_gc.collecting.collection import Collection
from jaato_gc.collecting.fitting import fit, fits, shorten_oversized
from jaato_gc.collecting.floor import with_reachable_goal
from jaato_gc.collecting.ledger import ledger_message
from jaato_gc.collecting.notice import notice_cost, notice_edits, notice_text
from jaato_gc.collecting.outcome import Changes, Outcome
from jaato_gc.collecting.results import (
    CacheImpact,
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    Shortfall,
)
from jaato_gc.collecting.triggers import ContextUsage
from jaato_gc.config import GCConfig
from jaato_gc.history import Edit, Hold, SourceRemoval, apply_edits
from jaato_gc.messages import LEDGER_ID, NOTICE_ID, Message, Role, is_ledger, is_notice
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter, count_tokens, message_tokens


def open_collection(
    plugin_name: str,
    notice: str | None,
    history: Sequence[Message],
    context_usage: ContextUsage,
    config: GCConfig,
    reason: GCTriggerReason,
    budget: InstructionBudget | None,
    *,
    all_steps: bool = True,
) -> Collection:
    """Returns a collection for a strategy, with a reserve for its notice if it has a template.

    Results of the last calls that take too much are shortened already, unless ``all_steps`` is
    false.
    """
    collection = Collection.of(history, context_usage, config, reason, budget)
    collection = with_reachable_goal(collection)
    collection = replace(collection, reserve=notice_cost(notice, collection, plugin_name))
    if all_steps:
        collection.close()
        limit = budget.context_limit if budget else context_usage.get("context_limit")
        shorten_oversized(collection, config.request_limit(limit))
        collection.open()
    return collection


def conclude(
    collection: Collection,
    plugin_name: str,
    notice: str | None = None,
    *,
    all_steps: bool = True,
    notification: str | None = None,
) -> tuple[Outcome, GCResult]:
    """Closes a collection and returns its outcome and its result.

    If the request would not fit, core removes more. If it can't be made to fit, nothing changes.
    With a template, a notice is added, unless it would cost more than is freed or miss the goal.

    Args:
        collection: The collection.
        plugin_name: The strategy.
        notice: The template of the notice.
        all_steps: False: core removes nothing from recent turns.
        notification: The notice that the strategy added itself.
    """
    collection.close()
    if not fits(collection):
        fit(collection, all_steps=all_steps)
    if not fits(collection):  # what the strategy inserted may be in the way: try without it
        alone = replace(collection, details={"insertions_dropped": True})
        alone.close()
        fit(alone, all_steps=all_steps)
        if fits(alone):
            collection, notice, notification = alone, None, None
    _add_ledger(collection)
    if not fits(collection):
        return account(collection, [], plugin_name, {**collection.details, "fits": False})
    changes: Changes = collection.changes
    edits = [each for each in changes if isinstance(each, Edit)]
    if any(is_notice(each) for edit in edits for each in (edit.before, edit.after) if each):
        notice = None  # there was no room for the old one, or the strategy wrote a new one
    elif NOTICE_ID in collection.held:
        notice = None  # the old one is LOCKED or pinned
    text = notification
    goal, freed = collection.goal, collection.tokens_freed
    wanted, left = goal.tokens_to_free or 0, freed - collection.reserve
    elsewhere = sum([each.tokens for each in changes if isinstance(each, SourceRemoval)])
    is_worth_it = freed - elsewhere > collection.reserve  # it tells of the history only
    misses_goal = left < goal.tokens_to_fit or left < wanted <= freed
    if notice is not None and is_worth_it and not misses_goal:
        text = notice_text(notice, collection, plugin_name, freed, collection.turns_removed)
        changes = [*notice_edits(collection.history, changes, text, collection.held), *changes]
    details = {**_figures(collection, changes), **collection.details}
    return account(collection, changes, plugin_name, details, text)


def _figures(collection: Collection, changes: Changes) -> dict[str, Any]:
    """Returns the details of every collection."""
    turns, removed = collection.turns, collection.turns_removed
    kept = [
        turn.index
        for turn in turns
        if collection.is_recent(turn) or any(group.hold is Hold.PINNED for group in turn.groups)
    ]
    figures: dict[str, Any] = {
        "turns_before": len(turns),
        "turns_after": len(turns) - removed,
        "turns_removed": removed,
        "turns_truncated": removed - collection.turns_summarized,
        "turns_summarized": collection.turns_summarized,
        "preserve_count": collection.config.preserve_recent_turns,
        "preserved_indices": kept,
    }
    if not changes:
        below = "already below target, so nothing was removed"
        figures["message"] = "nothing may be removed" if collection.needs_more else below
    return figures


def _add_ledger(collection: Collection) -> None:
    """Adds the ledger, if one was asked for and whole groups go without a summary."""
    log = collection._log
    edits = [each for each in log.changes if isinstance(each, Edit)]
    told = {each.message_id for each in edits if each.action == "summarize"}
    removed = [
        group
        for group in collection.groups
        if log.is_removed(group) and not group.is_outside_turns
        if group.messages[0].message_id not in told
    ]
    if not log.ledger_tokens or not removed:
        return
    earlier = next((each for each in collection.history if each.message_id == LEDGER_ID), None)
    if earlier is not None and not is_ledger(earlier):
        return  # the host uses this id
    if LEDGER_ID in collection.held:
        return  # it is LOCKED or pinned
    left = apply_edits(collection.history, edits)
    room = log.freed - max(1, collection.goal.tokens_to_fit)
    room += count_tokens(
        (each for each in left if each.message_id == LEDGER_ID), collection.counter
    )
    left = [each for each in left if each.message_id != LEDGER_ID]
    most = min(log.ledger_tokens, room)
    ledger = ledger_message(earlier, removed, left, most, collection.counter)
    if ledger is not None and message_tokens(ledger, collection.counter) <= room:
        log.put_ledger(earlier, ledger, collection.position_before(removed))


def account(
    collection: Collection,
    changes: Changes,
    plugin_name: str,
    details: dict[str, Any],
    notification: str | None = None,
) -> tuple[Outcome, GCResult]:
    """Returns the outcome and the result of some changes to the history of a collection."""
    outcome = Outcome.of(collection, changes)
    budget, counter = collection.budget, collection.counter
    items, freed = _removal_list(changes, counter, budget)
    turns_removed = sum([message.opens_turn for message in outcome.removed.values()])
    ended = collection.goal.outcome(freed=freed, turns_removed=turns_removed)
    if "tokens_freed" in details:  # the strategy's figure has no ledger, notice and fitting
        details = {**details, "tokens_freed": freed}
    shortfall = None
    if ended in (GCOutcome.SHORT, GCOutcome.NO_GAIN):
        missing = max(0, (collection.goal.tokens_to_free or 0) - freed)
        shortfall = _shortfall(missing, collection, outcome, items)
    total = budget.total_tokens() if budget else count_tokens(collection.history, counter)
    return outcome, GCResult(
        success=True,
        items_collected=len(items),
        tokens_before=total,
        tokens_after=max(0, total - freed),
        plugin_name=plugin_name,
        trigger_reason=collection.reason,
        notification=notification,
        details=details,
        removal_list=items,
        outcome=ended,
        shortfall=shortfall,
        cache=cache_impact(outcome.edits, outcome.after, counter),
        confidence=counter.confidence,
    )


def failure(collection: Collection, plugin_name: str, outcome: GCOutcome, error: str) -> GCResult:
    """Returns the result of a collection that changes nothing because of an error."""
    budget = collection.budget
    total = budget.total_tokens() if budget else count_tokens(collection.history)
    return GCResult(
        success=False,
        items_collected=0,
        tokens_before=total,
        tokens_after=total,
        plugin_name=plugin_name,
        trigger_reason=collection.reason,
        error=error,
        outcome=outcome,
        confidence=collection.counter.confidence,
    )


def cache_impact(
    edits: Sequence[Edit], after: Sequence[Message], counter: TokenCounter = DEFAULT_COUNTER
) -> CacheImpact:
    """Returns the effect of some edits on the prompt cache, from the edited history."""
    first = min((edit.position for edit in edits), default=None)
    return CacheImpact(
        first_changed=first,
        prefix_tokens=count_tokens(after[:first], counter),
        rewritten_tokens=0 if first is None else count_tokens(after[first:], counter),
    )


# --- the removal list ---


def _removal_list(
    changes: Changes, counter: TokenCounter, budget: InstructionBudget | None
) -> tuple[list[GCRemovalItem], int]:
    """Returns one item per key, in the order of the changes, and the tokens that all free."""
    items: dict[object, GCRemovalItem] = {}
    elsewhere: dict[int, int] = {}
    freed_here = 0
    for change in changes:
        if isinstance(change, SourceRemoval):
            tokens = _source_tokens(change, budget)
            elsewhere |= tokens  # once each, if two items overlap
            items[change.source, change.child_key] = GCRemovalItem(
                change.source, change.child_key, sum(tokens.values()), change.reason
            )
            continue
        before, after, key = change.before, change.after, _key(change, budget)
        freed = message_tokens(before, counter) if before else 0
        if after:
            freed -= message_tokens(after, counter)
        freed_here += freed
        if before and key:
            item = items.get(key)
            if item is None:
                source = InstructionSource.CONVERSATION
                item = items[key] = GCRemovalItem(
                    source, key, 0, change.reason, [], change.action, change.keep
                )
            item.message_ids.append(before.message_id)
            item.tokens_freed += freed
            item.keep |= change.keep
    return list(items.values()), freed_here + sum(elsewhere.values())


def _key(change: Edit, budget: InstructionBudget | None) -> str | None:
    """Returns the key of a change in the removal list: in a host's own budget, one of that budget.

    Only removals have one: the host removes the entry, and what was shortened still is in it.
    """
    if change.after is None and isinstance(budget, HostBudget):
        entry = budget.entry_of(change.message_id)
        return (entry and entry.key) or change.key
    return change.key


def _source_tokens(removal: SourceRemoval, budget: InstructionBudget | None) -> dict[int, int]:
    """Returns the tokens of every entry that a removal covers, by the entry's identity."""
    if budget is None:
        return {id(removal): removal.tokens}
    entry = budget.entry_under(removal.source, removal.child_key)
    return {id(each): each.tokens for each in (entry.walk() if entry else ())}


# --- the shortfall ---


def _shortfall(
    missing: int,
    collection: Collection,
    outcome: Outcome,
    items: Iterable[GCRemovalItem],
) -> Shortfall:
    counter, budget = collection.counter, collection.budget
    current = {edit.before.message_id: edit.after for edit in outcome.edits if edit.before}
    held: dict[str, int] = {}
    largest, largest_tokens = None, 0
    for group in collection.groups:
        hold = "strategy" if collection.holds(group) else f"{group.hold or ''}"
        for message in group.messages if hold else ():
            if message.message_id in outcome.removed:  # to make the request fit
                continue
            tokens = message_tokens(current.get(message.message_id) or message, counter)
            held[hold] = held.get(hold, 0) + tokens
            if group.hold is Hold.RECENT and tokens > largest_tokens:
                largest, largest_tokens = message.message_id, tokens
    system = count_tokens([each for each in outcome.after if each.role is Role.SYSTEM], counter)
    floor = {"system": system, "conversation": count_tokens(outcome.after, counter) - system}
    if budget:
        for each, entry in budget.entries.items():
            if each is not InstructionSource.CONVERSATION:
                floor[each.value] = entry.total_tokens()
        for item in items:
            if item.source is not InstructionSource.CONVERSATION:
                floor[item.source.value] -= item.tokens_freed
    return Shortfall(missing, floor, held, largest, largest_tokens)
