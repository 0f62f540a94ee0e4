"""gc_hybrid."""

from collections.abc import Sequence

from pydantic import NonNegativeInt

from jaato_gc import count_tokens
from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    RemovalUnit,
    StrategyInfo,
    SummarySettings,
    TurnSummarizer,
    hookimpl,
)


class HybridSettings(SummarySettings):
    """Options of gc_hybrid."""

    summarize_middle_turns: NonNegativeInt = 10
    """The number of turns before the recent ones that are summarized; older ones are removed."""


class HybridGCPlugin(GCStrategy[HybridSettings]):
    """Removes what is ancient, summarizes what is in the middle, keeps what is recent.

    The middle are the turns before the recent ones. In a history of recent turns only, it is the
    newer half of the calls that must go. A ledger lists what was removed. Without a summarizer, the
    middle is removed too.
    """

    name = "gc_hybrid"
    settings_model = HybridSettings

    def select(self, collection: Collection) -> None:
        """Removes what is ancient, then summarizes the middle."""
        collection.details.update(
            preserve_recent=collection.config.preserve_recent_turns,
            summarize_middle=self.settings.summarize_middle_turns,
            had_summarizer=self.settings.can_summarize,
        )
        if not collection.needs_more:
            return
        collection.leave_ledger()
        ancient, middle = self._generations(collection)
        collection.remove_in_order(ancient, "ancient_truncated")
        self._summarize(collection, middle)
        recent = [turn for turn in collection.turns if collection.is_recent(turn)]
        collection.remove_oldest(recent, "recent_truncated")

    def _generations(self, collection: Collection) -> tuple[list[RemovalUnit], list[RemovalUnit]]:
        """Returns what is ancient and what is in the middle."""
        old = [turn for turn in collection.turns if not collection.is_recent(turn)]
        units = [unit for unit in collection.removal_units(old) if _may_go(collection, unit)]
        if units:
            split = max(0, len(units) - self.settings.summarize_middle_turns)
        else:
            units = self._calls_that_must_go(collection)
            split = len(units) // 2
        return units[:split], units[split:]

    def _calls_that_must_go(self, collection: Collection) -> list[RemovalUnit]:
        """Returns the oldest calls of recent turns that free enough."""
        goal = collection.goal
        wanted = (goal.tokens_to_free or 0) + self.settings.expected_size(goal.target_tokens)
        chosen: list[RemovalUnit] = []
        for unit in collection.removal_units(collection.turns):
            if wanted <= 0:
                break
            if _may_go(collection, unit):
                chosen.append(unit)
                wanted -= count_tokens(unit.groups[0].messages, collection.counter)
        return chosen

    def _summarize(self, collection: Collection, middle: Sequence[RemovalUnit]) -> None:
        if not middle:
            return
        if self.settings.can_summarize:
            TurnSummarizer(collection, self.settings).summarize(middle, "middle_summarized")
            return
        if collection.needs_more:
            collection.details["summarizer"] = "none, so the middle was truncated"
            collection.remove_in_order(middle, "truncated_fallback")


def _may_go(collection: Collection, unit: RemovalUnit) -> bool:
    return any(collection.may_remove(group) for group in unit.groups)


def create_plugin() -> HybridGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return HybridGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_hybrid."""
    return [
        StrategyInfo(
            name=HybridGCPlugin.name,
            factory=create_plugin,
            summary="Removes ancient turns, summarizes middle ones, keeps recent ones.",
            config_model=HybridSettings,
        )
    ]
