"""The sweep: rung by rung, cheapest loss first, until enough is free."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from jaato_gc import Clearing, Collection, GCPolicy, Group, Hold, InstructionBudget, SyntheticKind
from jaato_gc_marksweep._garbage import CHARACTERS_PER_TOKEN, Garbage, Rung, find_garbage
from jaato_gc_marksweep._names import names_in
from jaato_gc_marksweep._segmenting import Swept, in_sweeping_order
from jaato_gc_marksweep._settings import MarkSweepSettings
from jaato_gc_marksweep._tool_uses import ToolUse, find_tool_uses

NAMES_SHARE: Final = 0.15
"""Of what is cleared, the names that it mentions may take up so much."""
KEEP_NAMES: Final = (Rung.LONG, Rung.STALE)
"""What is dead is mentioned later anyway."""

_RECALL_KEY: Final = re.compile(r"; recall key [0-9a-f]{16}\]")


class Sweep:
    """One collection by gc_marksweep. Each step stops as soon as enough is free."""

    def __init__(
        self,
        collection: Collection,
        budget: InstructionBudget | None,
        settings: MarkSweepSettings,
    ) -> None:
        self._collection = collection
        self._budget = budget
        self._settings = settings
        self._groups = [group for group in collection.groups if not self._is_spared(group)]
        self._uses = find_tool_uses(self._groups, settings.tools)

    def clear_garbage(self) -> None:
        """Results and arguments that can be cleared, by rung.

        If the young generation has enough of it, the old one is left alone, and with it the
        beginning of the history, which the provider has cached. Under pressure all is looked at.
        """
        collection = self._collection
        garbage = [
            each
            for each in find_garbage(self._uses, self._settings)
            if collection.may_clear(each.group)
        ]
        young = [each for each in garbage if not self._is_old(each.group)]
        if self._would_do(young) and not collection.under_pressure:
            collection.details["generation"] = "young"
            self._clear(young)
        if collection.needs_more:
            collection.details["generation"] = "all"
            self._clear(garbage)

    def _clear(self, garbage: Iterable[Garbage]) -> None:
        for each in garbage:
            if not self._collection.needs_more:
                return
            how = each.how
            if each.rung in KEEP_NAMES:
                how = self._naming(how, self._texts[each.place])
            self._collection.clear(each.group, each.reason, how, parts=_only(each.place))

    def clear_old_results(self) -> None:
        """Results before the recent turns, those first that are least likely to be needed."""
        self._clear_results((each.group for each in self._order), "cleared_old")

    def clear_recent_results(self) -> None:
        """Results inside the recent turns, but for those of the last calls, oldest first."""
        recent = (group for group in self._groups if group.hold is Hold.RECENT)
        self._clear_results(recent, "cleared_recent")

    def remove_groups(self) -> None:
        """Whole exchanges and messages, in the same order."""
        collection = self._collection
        causes = collection.details.setdefault("swept", {})
        for each in self._order:
            if not collection.needs_more:
                return
            key = collection.key_of(each.group)
            collection.take([each.group], key, "swept")
            causes[key] = each.cause

    def _clear_results(self, groups: Iterable[Group], reason: str) -> None:
        how = Clearing("an old result")
        for group in groups:
            for use in self._uses_of.get(id(group), ()):
                if not self._collection.needs_more:
                    return
                named = self._naming(how, use.text)
                self._collection.clear(group, reason, named, parts=_only(use.result_at))

    @cached_property
    def _order(self) -> list[Swept]:
        """All groups that may go, first those that the host itself called EPHEMERAL.

        Names are looked for only here: most collections need none.
        """
        tools = {group: uses[0].kind for group, uses in self._uses_of.items()}
        old = {id(group) for group in self._groups if self._is_old(group)}
        order = in_sweeping_order(self._groups, tools, old, self._collection.counter)
        return sorted(order, key=lambda each: not _is_given_away(each.group))

    @cached_property
    def _texts(self) -> dict[tuple[str, int], str]:
        return {use.result_at: use.text for use in self._uses}

    @cached_property
    def _uses_of(self) -> dict[int, list[ToolUse]]:
        uses: dict[int, list[ToolUse]] = {}
        for use in self._uses:
            uses.setdefault(id(use.group), []).append(use)
        return uses

    def _is_spared(self, group: Group) -> bool:
        """Whether a group is dear and there is no pressure, or is a notice, which is replaced."""
        if group.messages[0].synthetic is SyntheticKind.NOTICE:
            return True
        return group.policy is GCPolicy.PRESERVABLE and not self._collection.under_pressure

    def _is_old(self, group: Group) -> bool:
        if self._budget is None:
            return False
        survived = self._budget.collections_survived(group.messages[-1].message_id)
        return survived >= self._settings.old_after

    def _would_do(self, garbage: Sequence[Garbage]) -> bool:
        wanted = self._collection.goal.tokens_to_free
        return wanted is not None and sum(each.tokens for each in garbage) >= wanted

    def _naming(self, how: Clearing, text: str) -> Clearing:
        """How to clear a text, and the names of what is cleared: they tell what to ask for."""
        body = text[how.head : len(text) - how.tail]
        most = self._settings.max_name_tokens * CHARACTERS_PER_TOKEN
        room = min(int(len(body) * NAMES_SHARE), most)
        kept: list[str] = []
        for name in names_in(_RECALL_KEY.sub("", body)):
            room -= len(name) + len(", ")
            if room < 0:
                break
            kept.append(name)
        return replace(how, note=f"{how.note}; it mentions {', '.join(kept)}") if kept else how


def _is_given_away(group: Group) -> bool:
    return any(message.policy is GCPolicy.EPHEMERAL for message in group.messages)


def _only(place: tuple[str, int]) -> dict[str, set[int]]:
    message_id, part = place
    return {message_id: {part}}
