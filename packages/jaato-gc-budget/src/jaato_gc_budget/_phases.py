"""The phases of a collection, lowest priority first. Each stops when enough is free.

The order of `REMOVABLE_POLICIES` is the order of the phases, so a policy that core adds there has a
phase of its own.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from operator import itemgetter

from jaato_gc import GCPolicy, InstructionBudget, InstructionSource, SourceEntry
from jaato_gc.plugin import (
    REMOVABLE_POLICIES,
    Collection,
    Group,
    RemovalUnit,
    Shortening,
    Turn,
    find_tool_uses,
    places_by_touch,
)

_TURNS = REMOVABLE_POLICIES.index(GCPolicy.PARTIAL)
BEFORE_TURNS = REMOVABLE_POLICIES[:_TURNS]
"""The policies that go before any turn, entry by entry. Their results are shortened first."""
WITH_TURNS = REMOVABLE_POLICIES[: _TURNS + 1]
"""The policies of what goes with its turn."""
CHARACTERS_PER_TOKEN = 4
HEAD_SHARE = 0.6
"""The share of the head in what stays of a long result."""
LONG = "the middle of a long result; read it in parts"

Ages = list[tuple[float, Group]]
"""The groups of a history with their places by age, oldest first."""


def hold_first_request(collection: Collection, policies: Container[GCPolicy] = WITH_TURNS) -> None:
    """Holds the request of the first turn that may not go as a whole.

    Removal by policy may leave an answer without its request, and that must not come first.

    Args:
        collection: The collection.
        policies: The policies of what goes with its turn.
    """
    for turn in collection.turns:
        request = next((group for group in turn.groups if group.messages[0].opens_turn), None)
        if not _goes_as_a_whole(turn, request, collection, policies):
            if request:
                collection.hold(request)
            return


def _goes_as_a_whole(
    turn: Turn, request: Group | None, collection: Collection, policies: Container[GCPolicy]
) -> bool:
    if any(group.hold for group in turn.groups):
        return False
    if request is None or request.policy is GCPolicy.PARTIAL:
        return all(group.policy in policies for group in turn.groups)
    return len({(group.policy, collection.key_of(group)) for group in turn.groups}) == 1


def remove_enrichment(collection: Collection, budget: InstructionBudget) -> None:
    """Phase 1a: all enrichment at once, because every turn adds it again."""
    source = InstructionSource.ENRICHMENT
    entry = budget.get_entry(source)
    if entry is None or source not in budget.collectable_sources or not entry.total_tokens():
        return
    if not collection.needs_more:
        return
    if not _holds(entry, GCPolicy.LOCKED):
        collection.remove_source(source, None, entry.total_tokens(), "enrichment_bulk_clear")
        return
    for key, child in entry.children.items():
        if not _holds(child, GCPolicy.LOCKED):
            collection.remove_source(source, key, child.total_tokens(), "enrichment_bulk_clear")


def shorten_results(
    collection: Collection, ages: Ages, policy: GCPolicy, max_result_tokens: int
) -> None:
    """Phase 1b: lines that occur again later, then the middle of long results, oldest first."""
    # The later copy may go at any time, so nothing stricter relies on it.
    collection.drop_repeated_lines(f"{policy}_repeated", (policy,))
    characters = max_result_tokens * CHARACTERS_PER_TOKEN
    head = int(characters * HEAD_SHARE)
    how = Shortening(LONG, head, characters - head)
    for _, group in ages:
        if not collection.needs_more:
            return
        if group.policy is policy:
            collection.shorten(group, f"{policy}_shortened", how)


def remove_entries(
    collection: Collection,
    ages: Ages,
    budget: InstructionBudget,
    policy: GCPolicy,
    *,
    recent: bool,
) -> None:
    """Phase 1b, continued: whole entries under a policy, oldest first.

    A call about a file counts as standing half-way to the last touch of that file.

    Args:
        collection: The collection.
        ages: All groups, oldest first.
        budget: The budget.
        policy: The policy of the entries.
        recent: Whether those in recent turns go too. They wait until old turns are gone.
    """
    if not recent:
        newest = {
            id(group)
            for turn in collection.turns
            if collection.is_recent(turn)
            for group in turn.groups
        }
        ages = [(place, group) for place, group in ages if id(group) not in newest]
    candidates = [
        *_groups(ages, budget, policy),
        *_schemas(collection, budget, policy, keep_newest=True),
    ]
    collection.remove_in_order(_by_age(candidates), reason_of(policy))


def remove_turns(
    collection: Collection, policies: Container[GCPolicy] = WITH_TURNS, *, recent: bool
) -> None:
    """Phase 2: old turns as a whole, or older calls of recent turns.

    Args:
        collection: The collection.
        policies: The policies of what goes; other content of a turn stays.
        recent: Whether older calls of recent turns go too.
    """
    turns = [turn for turn in collection.turns if recent or not collection.is_recent(turn)]
    collection.remove_oldest(turns, reason_of(GCPolicy.PARTIAL), policies)


def remove_preservable(collection: Collection, ages: Ages, budget: InstructionBudget) -> None:
    """Phase 3: PRESERVABLE entries such as clarifications and summaries, oldest first."""
    candidates = [
        *_groups(ages, budget, GCPolicy.PRESERVABLE),
        *_schemas(collection, budget, GCPolicy.PRESERVABLE),
    ]
    collection.remove_in_order(_by_age(candidates), reason_of(GCPolicy.PRESERVABLE))


def reason_of(policy: GCPolicy) -> str:
    """Returns the reason, in the removal list, of what is removed under a policy."""
    return _REASONS.get(policy, policy.value)


_REASONS = {
    GCPolicy.PARTIAL: "partial_turn",
    GCPolicy.PRESERVABLE: "preservable_under_pressure",
}


Candidate = tuple[float, RemovalUnit | SourceEntry]
"""The place by age, and what to remove: a unit of the history, or another entry."""


def _by_age(candidates: list[Candidate]) -> list[RemovalUnit | SourceEntry]:
    return [what for _, what in sorted(candidates, key=itemgetter(0))]


def ages_of(collection: Collection) -> Ages:
    """Returns all groups with their places by age, oldest first."""
    groups = collection.groups
    places = places_by_touch(groups, find_tool_uses(groups))
    return sorted(zip(places, groups, strict=True), key=itemgetter(0))


def _groups(ages: Ages, budget: InstructionBudget, policy: GCPolicy) -> Iterable[Candidate]:
    """Returns the groups under a policy, one candidate per entry of the budget.

    Protected groups are among them: ``remove`` leaves them out.
    """
    by_key: dict[str, tuple[float, RemovalUnit]] = {}
    for place, group in ages:
        if group.policy is policy:
            message_id = group.messages[0].message_id
            entry = budget.entry_of(message_id)
            key = (entry and entry.key) or message_id
            _, unit = by_key.setdefault(key, (place, RemovalUnit(key, [])))
            unit.groups.append(group)
    return by_key.values()


def _schemas(
    collection: Collection,
    budget: InstructionBudget,
    policy: GCPolicy,
    *,
    keep_newest: bool = False,
) -> Iterator[Candidate]:
    """Returns the entries outside conversation and enrichment, without the newest if asked to.

    Their places are those of the messages that were booked at the same time.
    """
    elsewhere = budget.collectable_sources - {
        InstructionSource.CONVERSATION,
        InstructionSource.ENRICHMENT,
    }
    booked = [budget.entry_of(group.messages[0].message_id) for group in collection.groups]
    times = sorted(entry.created_at if entry else 0.0 for entry in booked)
    for source, root in budget.entries.items():
        entries = list(_wholly_under(policy, root)) if source in elsewhere else []
        entries.sort(key=lambda entry: entry.created_at)
        for entry in entries[:-1] if keep_newest else entries:
            yield bisect_left(times, entry.created_at) - 0.5, entry


def _wholly_under(policy: GCPolicy, entry: SourceEntry) -> Iterator[SourceEntry]:
    """Returns the entries below one that are under a policy with everything below them."""
    others = set(GCPolicy) - {policy}
    for child in entry.children.values():
        if _holds(child, *others):
            yield from _wholly_under(policy, child)
        elif child.total_tokens():
            yield child


def _holds(entry: SourceEntry, *policies: GCPolicy) -> bool:
    return any(each.binding_policy() in policies for each in entry.walk())
