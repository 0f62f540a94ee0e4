"""The phases of a collection, least dear first. Each stops as soon as enough is free."""

from collections.abc import Callable, Iterator
from functools import partial

from jaato_gc import Collection, GCPolicy, Group, InstructionBudget, InstructionSource, SourceEntry

MOVABLE = (GCPolicy.PARTIAL, GCPolicy.EPHEMERAL)


def clear_enrichment(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 1a: all enrichment at once; it is made anew every turn."""
    source = InstructionSource.ENRICHMENT
    entry = budget.get_entry(source)
    if entry is None or source not in budget.collectable_sources or not entry.total_tokens():
        return
    if not entry.locked_tokens():
        collection.take_source(source, None, entry.total_tokens(), "enrichment_bulk_clear")
        return
    for key, child in entry.children.items():
        if not child.locked_tokens():
            collection.take_source(source, key, child.total_tokens(), "enrichment_bulk_clear")


def remove_ephemeral(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 1b: everything else that is EPHEMERAL, oldest first."""
    candidates = [*_ephemeral_groups(collection, budget), *_ephemeral_schemas(collection, budget)]
    for _, take in sorted(candidates, key=lambda candidate: candidate[0]):
        if not collection.needs_more:
            return
        take()


def remove_partial_turns(collection: Collection, _budget: InstructionBudget) -> None:
    """Phase 2: turns, oldest first, but for what is dear in them."""
    collection.remove_oldest(collection.turns, "partial_turn", MOVABLE)


def remove_preservable(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 3: clarifications and summaries, oldest first."""
    candidates = [
        (_created_at(group, budget), group)
        for group in collection.groups
        if group.policy is GCPolicy.PRESERVABLE
    ]
    for _, group in sorted(candidates, key=lambda candidate: candidate[0]):
        if not collection.needs_more:
            return
        collection.take([group], collection.key_of(group), "preservable_under_pressure")


Candidate = tuple[float, Callable[[], object]]
"""When something was made, and how to take it."""


def _ephemeral_groups(collection: Collection, budget: InstructionBudget) -> Iterator[Candidate]:
    for group in collection.groups:
        if group.policy is GCPolicy.EPHEMERAL and not group.hold:
            take = partial(collection.take, [group], collection.key_of(group), "ephemeral")
            yield _created_at(group, budget), take


def _ephemeral_schemas(collection: Collection, budget: InstructionBudget) -> Iterator[Candidate]:
    """Entries outside the conversation, but for the newest of each source."""
    for source, entry in budget.entries.items():
        if source is InstructionSource.CONVERSATION or source not in budget.collectable_sources:
            continue
        children = sorted(
            (child for child in entry.children.values() if _is_ephemeral(child)),
            key=lambda child: child.created_at,
        )
        for child in children[:-1]:
            tokens = child.total_tokens()
            take = partial(collection.take_source, source, child.key, tokens, "ephemeral")
            yield child.created_at, take


def _is_ephemeral(entry: SourceEntry) -> bool:
    return entry.binding_policy() is GCPolicy.EPHEMERAL and not entry.locked_tokens()


def _created_at(group: Group, budget: InstructionBudget) -> float:
    entry = budget.entry_of(group.messages[0].message_id)
    return entry.created_at if entry else 0.0
