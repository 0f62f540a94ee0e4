"""The account of a collection: its result, recounted from its edits."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jaato_gc.budget import HostBudget, InstructionBudget
from jaato_gc.collecting.draft import Change, Draft
from jaato_gc.collecting.outcome import Outcome
from jaato_gc.collecting.results import (
    CacheImpact,
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    Shortfall,
)
from jaato_gc.frozen import FrozenList
from jaato_gc.history import Edit, Hold, SourceRemoval
from jaato_gc.messages import SYSTEM, Message
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import Confidence, TokenCounter, count_tokens, message_tokens

_PLACE = GCRemovalItem(InstructionSource.CONVERSATION)
"""Keeps the place of an item in the removal list until all its edits are known."""


def make_result(
    made_by: str,
    reason: GCTriggerReason,
    outcome: GCOutcome,
    tokens: tuple[int, int],
    confidence: Confidence,
    *,
    items: Sequence[GCRemovalItem] = (),
    details: dict[str, Any] | None = None,
    error: str | None = None,
    cache: CacheImpact | None = None,
    gc_id: str | None = None,
) -> GCResult:
    """Returns a result. Core makes every result here.

    Args:
        made_by: The strategy, or what else changed the history.
        reason: Why.
        outcome: How it ended.
        tokens: The tokens before and after it.
        confidence: How reliable they are.
        items: The removal list.
        details: Figures.
        error: The cause of a failure.
        cache: The effect on the prompt cache of the provider.
        gc_id: The id of the collection in its session.
    """
    before, after = tokens
    return GCResult(
        success=outcome.is_success,
        items_collected=len(items),
        tokens_before=before,
        tokens_after=after,
        plugin_name=made_by,
        trigger_reason=reason,
        details=details or {},
        error=error,
        removal_list=list(items),
        outcome=outcome,
        cache=cache,
        confidence=confidence,
        gc_id=gc_id,
    )


def result_of(draft: Draft, outcome: Outcome) -> GCResult:
    """Returns the result of a draft, as it is."""
    items, freed = removal_list(draft.changes, draft.counter, draft.budget)
    turns_removed = sum(message.opens_turn for message in outcome.removed.values())
    ended = draft.goal.outcome(freed=freed, turns_removed=turns_removed)
    details = dict(draft.details)
    if "fits" not in details:  # a request that can't be made to fit has no other figures
        details = {**_figures(draft), **details}
    if "tokens_freed" in details:  # the strategy's figure has no ledger, notice and fitting
        details["tokens_freed"] = freed
    result = make_result(
        draft.request.plugin_name,
        draft.reason,
        ended,
        (_total_tokens(draft), _total_tokens(draft, freed)),
        draft.counter.confidence,
        items=items,
        details=details,
        cache=cache_impact(outcome.edits, outcome.after, draft.counter),
        gc_id=draft.request.gc_id,
    )
    result.notification = draft.notification
    if ended in (GCOutcome.SHORT, GCOutcome.NO_GAIN):
        missing = max(0, (draft.goal.tokens_to_free or 0) - freed)
        result.shortfall = _shortfall(missing, draft, outcome, items)
    return result if draft.budget is None else as_reported(result, draft.budget.ratio)


def as_reported(result: GCResult, ratio: float) -> GCResult:
    """Returns a result whose counted figures are in the unit of its totals: reported tokens.

    Args:
        result: The result, with corrected totals.
        ratio: Reported tokens per counted token.
    """
    if ratio == 1:
        return result

    def scaled(tokens: int) -> int:
        return round(ratio * tokens)

    result.removal_list = [
        replace(item, tokens_freed=scaled(item.tokens_freed)) for item in result.removal_list
    ]
    for key in ("tokens_freed", "tokens_to_free"):
        if isinstance(result.details.get(key), int):
            result.details[key] = scaled(result.details[key])
    if cache := result.cache:
        rewritten = scaled(cache.rewritten_tokens)
        result.cache = CacheImpact(cache.first_changed, scaled(cache.prefix_tokens), rewritten)
    if short := result.shortfall:
        result.shortfall = Shortfall(
            scaled(short.missing_tokens),
            {source: scaled(tokens) for source, tokens in short.floor.items()},
            {why: scaled(tokens) for why, tokens in short.held.items()},
            short.largest_movable,
            scaled(short.largest_movable_tokens),
        )
    return result


def failed_result(draft: Draft, outcome: GCOutcome, error: str) -> GCResult:
    """Returns the result of a collection that changes nothing because of an error."""
    total = _total_tokens(draft)
    return make_result(
        draft.request.plugin_name,
        draft.reason,
        outcome,
        (total, total),
        draft.counter.confidence,
        error=error,
        gc_id=draft.request.gc_id,
    )


def _total_tokens(draft: Draft, freed: int = 0) -> int:
    """Returns the tokens of the context, less counted tokens that are freed."""
    if draft.budget:
        return draft.budget.corrected(max(0, draft.budget.counted_tokens() - freed))
    return max(0, count_tokens(draft.history, draft.counter) - freed)


def _figures(draft: Draft) -> dict[str, Any]:
    """Returns the details of every collection."""
    turns, removed = draft.turns, draft.turns_removed
    kept = [
        turn.index
        for turn in turns
        if draft.is_recent(turn) or any(group.hold is Hold.PINNED for group in turn.groups)
    ]
    figures: dict[str, Any] = {
        "turns_before": len(turns),
        "turns_after": len(turns) - removed,
        "turns_removed": removed,
        "turns_truncated": removed - draft.turns_summarized,
        "turns_summarized": draft.turns_summarized,
        "preserve_count": draft.config.preserve_recent_turns,
        "preserved_indices": kept,
    }
    if not draft.changes:
        below = "already below target, so nothing was removed"
        figures["message"] = "nothing may be removed" if draft.needs_more else below
    return figures


def cache_impact(
    edits: Sequence[Edit], after: Sequence[Message], counter: TokenCounter
) -> CacheImpact:
    """Returns the effect of some edits on the prompt cache, from the edited history."""
    first = min((edit.position for edit in edits), default=None)
    return CacheImpact(
        first_changed=first,
        prefix_tokens=count_tokens(after[:first], counter),
        rewritten_tokens=0 if first is None else count_tokens(after[first:], counter),
    )


# --- the removal list ---


def removal_list(
    changes: Iterable[Change], counter: TokenCounter, budget: InstructionBudget | None = None
) -> tuple[list[GCRemovalItem], int]:
    """Returns one item per key, in the order of the changes, and the tokens that all free."""
    items: dict[object, GCRemovalItem] = {}
    by_key: dict[str, list[tuple[Edit, int]]] = {}
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
            items.setdefault(key, _PLACE)
            by_key.setdefault(key, []).append((change, freed))
    for key, edits in by_key.items():
        items[key] = _item(key, edits)
    return list(items.values()), freed_here + sum(elsewhere.values())


def _item(key: str, edits: Sequence[tuple[Edit, int]]) -> GCRemovalItem:
    """Returns the item of some edits, each with the tokens that it frees."""
    first, _ = edits[0]
    return GCRemovalItem(
        InstructionSource.CONVERSATION,
        key,
        sum(freed for _, freed in edits),
        first.reason,
        FrozenList([edit.message_id for edit, _ in edits]),
        first.action,
        any(edit.stash for edit, _ in edits),
        FrozenList(),
    )


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
    return {id(below): below.tokens for below in (entry.walk() if entry else ())}


# --- the shortfall ---


def _shortfall(
    missing: int, draft: Draft, outcome: Outcome, items: Iterable[GCRemovalItem]
) -> Shortfall:
    counter, budget = draft.counter, draft.budget
    current = {edit.before.message_id: edit.after for edit in outcome.edits if edit.before}
    held: dict[str, int] = {}
    largest, largest_tokens = None, 0
    for group in draft.groups:
        by_strategy = "strategy" if id(group) in draft.held_by_strategy else ""
        hold = group.hold.value if group.hold else by_strategy
        for message in group.messages if hold else ():
            if message.message_id in outcome.removed:  # to make the request fit
                continue
            tokens = message_tokens(current.get(message.message_id) or message, counter)
            held[hold] = held.get(hold, 0) + tokens
            if group.hold is Hold.RECENT and tokens > largest_tokens:
                largest, largest_tokens = message.message_id, tokens
    system = count_tokens((message for message in outcome.after if message.role is SYSTEM), counter)
    floor = {"system": system, "conversation": count_tokens(outcome.after, counter) - system}
    if budget:
        for source, entry in budget.entries.items():
            if source is not InstructionSource.CONVERSATION:
                floor[source.value] = entry.total_tokens()
        for item in items:
            if item.source is not InstructionSource.CONVERSATION:
                floor[item.source.value] -= item.tokens_freed
    return Shortfall(missing, floor, held, largest, largest_tokens)
