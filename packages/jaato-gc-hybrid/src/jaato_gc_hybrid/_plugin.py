"""gc_hybrid."""

from collections.abc import Sequence

from pydantic import NonNegativeInt

from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    StrategyInfo,
    SummarySettings,
    Turn,
    TurnSummarizer,
    hookimpl,
)


class HybridSettings(SummarySettings):
    """Options of gc_hybrid."""

    summarize_middle_turns: NonNegativeInt = 10
    """The number of turns before the recent ones that are summarized; older ones are removed."""
    summarize_ancient: bool = False
    """Summarize the older turns too."""


class HybridGCPlugin(GCStrategy[HybridSettings]):
    """Removes ancient turns, then summarizes middle ones; recent turns stay.

    Each step stops when the goal is reached. Without a summarizer, middle turns are removed too.
    """

    name = "gc_hybrid"
    settings_model = HybridSettings

    def select(self, collection: Collection) -> None:
        """Removes ancient turns, summarizes middle ones, then shortens results of recent turns."""
        ancient, middle = self._generations(collection)
        if self.settings.summarize_ancient:
            self._summarize(collection, [*ancient, *middle])
        else:
            collection.remove_oldest(ancient, "ancient_truncated")
            self._summarize(collection, middle)
        collection.shorten_recent_results()

    def _generations(self, collection: Collection) -> tuple[Sequence[Turn], Sequence[Turn]]:
        turns, recent = collection.turns, collection.config.preserve_recent_turns
        old = turns[: max(0, len(turns) - recent)]
        split = max(0, len(old) - self.settings.summarize_middle_turns)
        return old[:split], old[split:]

    def _summarize(self, collection: Collection, turns: Sequence[Turn]) -> None:
        if self.settings.summarizer is not None:
            summarizer = TurnSummarizer(collection, self.settings)
            summarizer.summarize_oldest(turns, "middle_summarized")
        elif turns and collection.needs_more:
            collection.details["summarizer"] = "none, so turns were truncated"
            collection.remove_oldest(turns, "truncated_fallback")


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
