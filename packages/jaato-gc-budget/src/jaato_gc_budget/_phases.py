"""The phases of a collection, least dear first. Each stops as soon as enough is free."""

from collections.abc import Callable, Iterator
from functools import partial

from jaato_gc import (
    Collection,
    GCPolicy,
    Group,
    Hold,
    InstructionBudget,
    InstructionSource,
    SourceEntry,
    Turn,
)

MOVABLE = (GCPolicy.PARTIAL, GCPolicy.EPHEMERAL)


def keep_a_user_message_first(collection: Collection) -> None:
    """Hold the request of the first turn that may not go as a whole.

    What goes by policy may leave an answer without its request, and that must not come first.
    """
    for turn in collection.turns:
        request = next((group for group in turn.groups if group.messages[0].opens_turn), None)
        if not _goes_as_a_whole(turn, request, collection):
            if request:
                request.hold = request.hold or Hold.FIRST_USER
            return


def _goes_as_a_whole(turn: Turn, request: Group | None, collection: Collection) -> bool:
    if any(group.hold for group in turn.groups):
        return False
    if request is None or request.policy is GCPolicy.PARTIAL:
        return all(group.policy in MOVABLE for group in turn.groups)
    return len({(group.policy, collection.key_of(group)) for group in turn.groups}) == 1


def clear_enrichment(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 1a: all enrichment at once; it is made anew every turn."""
    source = InstructionSource.ENRICHMENT
    entry = budget.get_entry(source)
    if entry is None or source not in budget.collectable_sources or not entry.total_tokens():
        return
    if not _holds(entry, GCPolicy.LOCKED):
        collection.take_source(source, None, entry.total_tokens(), "enrichment_bulk_clear")
        return
    for key, child in entry.children.items():
        if not _holds(child, GCPolicy.LOCKED):
            collection.take_source(source, key, child.total_tokens(), "enrichment_bulk_clear")


def remove_ephemeral(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 1b: everything else that is EPHEMERAL, oldest first."""
    candidates = [
        *_groups(collection, budget, GCPolicy.EPHEMERAL, "ephemeral"),
        *_schemas(collection, budget, GCPolicy.EPHEMERAL, "ephemeral", keep_newest=True),
    ]
    _take_oldest(collection, candidates)


def remove_partial_turns(collection: Collection, _budget: InstructionBudget) -> None:
    """Phase 2: turns, oldest first, but for what is dear in them."""
    collection.remove_oldest(collection.turns, "partial_turn", MOVABLE)


def remove_preservable(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 3: clarifications, summaries and the like, oldest first."""
    reason = "preservable_under_pressure"
    candidates = [
        *_groups(collection, budget, GCPolicy.PRESERVABLE, reason),
        *_schemas(collection, budget, GCPolicy.PRESERVABLE, reason),
    ]
    _take_oldest(collection, candidates)


Candidate = tuple[float, Callable[[], object]]
"""When something was made, and how to take it."""


def _take_oldest(collection: Collection, candidates: list[Candidate]) -> None:
    for _, take in sorted(candidates, key=lambda candidate: candidate[0]):
        if not collection.needs_more:
            return
        take()


def _groups(
    collection: Collection, budget: InstructionBudget, policy: GCPolicy, reason: str
) -> Iterator[Candidate]:
    """What stands in the history, one candidate per entry of the budget."""
    by_key: dict[str, tuple[float, list[Group]]] = {}
    for group in collection.groups:
        if group.policy is policy and not group.hold:
            message_id = group.messages[0].message_id
            entry = budget.entry_of(message_id)
            key = (entry and entry.key) or message_id
            if key in by_key:
                by_key[key][1].append(group)
            else:
                by_key[key] = (entry.created_at if entry else 0.0, [group])
    for key, (created_at, groups) in by_key.items():
        yield created_at, partial(collection.take, groups, key, reason)


def _schemas(
    collection: Collection,
    budget: InstructionBudget,
    policy: GCPolicy,
    reason: str,
    *,
    keep_newest: bool = False,
) -> Iterator[Candidate]:
    """Entries outside conversation and enrichment, perhaps but for the newest of each source."""
    elsewhere = budget.collectable_sources - {
        InstructionSource.CONVERSATION,
        InstructionSource.ENRICHMENT,
    }
    for source, root in budget.entries.items():
        entries = list(_wholly_under(policy, root)) if source in elsewhere else []
        entries.sort(key=lambda entry: entry.created_at)
        for entry in entries[:-1] if keep_newest else entries:
            tokens = entry.total_tokens()
            take = partial(collection.take_source, source, entry.key, tokens, reason)
            yield entry.created_at, take


def _wholly_under(policy: GCPolicy, entry: SourceEntry) -> Iterator[SourceEntry]:
    """The entries below one that are under a policy with all that is below them."""
    others = set(GCPolicy) - {policy}
    for child in entry.children.values():
        if _holds(child, *others):
            yield from _wholly_under(policy, child)
        elif child.total_tokens():
            yield child


def _holds(entry: SourceEntry, *policies: GCPolicy) -> bool:
    return any(each.binding_policy() in policies for each in entry.walk())
