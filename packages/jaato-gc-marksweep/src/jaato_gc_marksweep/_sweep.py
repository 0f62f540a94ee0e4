"""The sweep: rung by rung, cheapest loss first, until enough is free."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from jaato_gc import GCPolicy, SyntheticKind
from jaato_gc.plugin import (
    REMOVABLE_POLICIES,
    Collection,
    Group,
    find_tool_uses,
    places_by_touch,
)
from jaato_gc_marksweep._garbage import Garbage, Rung, find_garbage
from jaato_gc_marksweep._settings import MarkSweepSettings


class Sweep:
    """One collection by gc_marksweep. Each step stops when enough is free.

    Args:
        collection: The collection.
        settings: The options of the strategy.
    """

    def __init__(self, collection: Collection, settings: MarkSweepSettings) -> None:
        self._collection = collection
        self._settings = settings
        self._groups = [group for group in collection.groups if not self._is_spared(group)]
        self._uses = find_tool_uses(self._groups, settings.tools)

    def shorten_dead_results(self) -> None:
        """Shortens results that a later one replaces, and drops lines that occur again later.

        If the young generation has enough of them, the old one stays, and with it the beginning of
        the history, which the provider has cached. Under pressure everything is considered.
        """
        collection = self._collection
        young = [each for each in self._garbage_of(Rung.DEAD) if not self._is_old(each.group)]
        if self._would_do(young) and not collection.under_pressure:
            collection.details["generation"] = "young"
            self._shorten(young)
        if collection.needs_more:
            collection.details["generation"] = "all"
            self._shorten(self._garbage_of(Rung.DEAD))
        if collection.needs_more:
            collection.drop_repeated_lines("cleared_repeated")

    def shorten_long_results(self) -> None:
        """Shortens long results to head and tail, least recently touched first."""
        place = self._place_of
        long = sorted(self._garbage_of(Rung.LONG), key=lambda each: place[id(each.group)])
        self._shorten(long)

    def remove_groups(self) -> None:
        """Removes whole groups, by the policies that the host gave them, then by last touch."""
        collection, place_of = self._collection, self._place_of
        groups = [group for group in self._groups if collection.may_remove(group)]
        groups.sort(key=lambda group: (_rank(group), place_of[id(group)]))
        collection.remove_in_order(groups, "swept")

    def _garbage_of(self, rung: Rung) -> list[Garbage]:
        may_shorten = self._collection.may_shorten
        return [each for each in self._garbage if each.rung is rung and may_shorten(each.group)]

    @cached_property
    def _garbage(self) -> list[Garbage]:
        return find_garbage(self._uses, self._settings)

    @cached_property
    def _place_of(self) -> dict[int, float]:
        """Returns the place of each group by age, later if its file was touched later."""
        places = places_by_touch(self._groups, self._uses)
        return dict(zip(map(id, self._groups), places, strict=True))

    def _shorten(self, garbage: Iterable[Garbage]) -> None:
        for each in garbage:
            if not self._collection.needs_more:
                return
            self._collection.shorten(each.group, each.reason, each.how, parts=_only(each.place))

    def _is_spared(self, group: Group) -> bool:
        """Returns whether a group is a notice or the ledger, or PRESERVABLE without pressure."""
        if group.messages[0].synthetic in (SyntheticKind.NOTICE, SyntheticKind.LEDGER):
            return True
        return group.policy is GCPolicy.PRESERVABLE and not self._collection.under_pressure

    def _is_old(self, group: Group) -> bool:
        """Returns whether a group survived a collection."""
        budget = self._collection.budget
        if budget is None:
            return False
        return budget.collections_survived(group.messages[-1].message_id) > 0

    def _would_do(self, garbage: Sequence[Garbage]) -> bool:
        wanted = self._collection.goal.tokens_to_free
        return wanted is not None and sum(each.tokens for each in garbage) >= wanted


def _rank(group: Group) -> int:
    """Returns the place of a group's policy in the order of removal.

    All calls are booked as EPHEMERAL, so that counts only if the host marked a message with it.
    """
    given = [_RANKS[each.policy] for each in group.messages if each.policy in _RANKS]
    booked = max(_RANKS[GCPolicy.PARTIAL], _RANKS.get(group.policy, 0))
    return min(given, default=booked)


_RANKS: dict[GCPolicy | None, int] = {
    policy: rank for rank, policy in enumerate(REMOVABLE_POLICIES)
}


def _only(place: tuple[str, int]) -> dict[str, set[int]]:
    message_id, part = place
    return {message_id: {part}}
