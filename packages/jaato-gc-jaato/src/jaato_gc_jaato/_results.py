"""The result of a collection as jaato-server expects it.

jaato-server follows a result in two ways: an entry of its budget that an item names is removed as a
whole, and ``summary_tokens`` are added in an entry of their own. It counts the messages one by one
at its next turn. So what remains under the keys of removed entries, in shorter messages and in new
ones, is reported together as ``summary_tokens``; its total is right at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from jaato_gc import GCResult, GCTriggerReason, InstructionSource, Message
from jaato_gc_jaato._budget import HostBudget
from jaato_gc_jaato._host import HostReason, HostResult
from jaato_gc_jaato._messages import host_id


def read_reason(reason: HostReason) -> GCTriggerReason:
    """Returns the reason of jaato-server as one of ours; THRESHOLD if we have none like it."""
    known = {each.value: each for each in GCTriggerReason}
    return known.get(reason.value, GCTriggerReason.THRESHOLD)


def write_reason(reason: GCTriggerReason, gc: ModuleType) -> HostReason:
    """Undoes `read_reason`."""
    known = {each.value: each for each in gc.GCTriggerReason}
    return known.get(reason.value, gc.GCTriggerReason.THRESHOLD)


def write_result(
    result: GCResult,
    changed: Sequence[Message],
    name: str,
    reason: HostReason,
    budget: HostBudget | None,
    gc: ModuleType,
) -> HostResult:
    """Returns the result of a collection that changes something, or has nothing to do.

    Args:
        result: The result of the strategy.
        changed: The messages that are removed or replaced.
        name: The name of the plugin.
        reason: The reason that jaato-server gave.
        budget: The budget.
        gc: jaato-server's package of GC plugins.
    """
    items = _items(result, changed, reason, budget, gc) if budget else []
    before = budget.total_tokens if budget else result.tokens_before
    details: dict[str, Any] = {**result.details, "outcome": result.outcome.value}
    details.pop("summary_tokens", None)
    after = result.tokens_after
    if budget:
        removed = sum(item.tokens_freed for item in items)
        after = max(after, before - removed)  # it can't fall by more
        if after > before - removed:
            details["summary_tokens"] = after - (before - removed)
    return gc.GCResult(
        success=True,
        items_collected=len(items) if budget else result.items_collected,
        tokens_before=before,
        tokens_after=after,
        plugin_name=name,
        trigger_reason=reason,
        notification=result.notification,
        details=details,
        removal_list=items,
    )


def _items(
    result: GCResult,
    changed: Sequence[Message],
    reason: HostReason,
    budget: HostBudget,
    gc: ModuleType,
) -> list[Any]:
    """Returns one item for each entry that leaves jaato-server's budget."""
    reasons = {each: item.reason for item in result.removal_list for each in item.message_ids}
    items = [
        gc.GCRemovalItem(
            source=budget.source(InstructionSource.CONVERSATION),
            child_key=key,
            tokens_freed=budget.tokens_under(key),
            reason=_first_reason(messages, reasons) or reason.value,
            message_ids=[host_id(message) for message in messages],
        )
        for key, messages in budget.booked_under(changed).items()
    ]
    for item in result.removal_list:
        if item.source is not InstructionSource.CONVERSATION:
            source, tokens = budget.source(item.source), item.tokens_freed
            items.append(gc.GCRemovalItem(source, item.child_key, tokens, item.reason))
    return items


def _first_reason(messages: Iterable[Message], reasons: Mapping[str, str]) -> str | None:
    """Returns why the strategy removed messages; ``None`` for those that it only replaced."""
    return next((reasons[each.message_id] for each in messages if each.message_id in reasons), None)
