"""gc_hybrid."""

from collections.abc import Sequence

from pydantic import NonNegativeInt

from jaato_gc import (
    Collection,
    ContextUsage,
    GCConfig,
    GCResult,
    GCStrategy,
    GCTriggerReason,
    InstructionBudget,
    Message,
    StrategyInfo,
    SummaryError,
    SummarySettings,
    SummaryWriter,
    Turn,
    hookimpl,
)


class HybridSettings(SummarySettings):
    """Options of gc_hybrid."""

    summarize_middle_turns: NonNegativeInt = 10
    """How many turns before the recent ones are summarized; what is older is truncated."""
    summarize_ancient: bool = False
    """Summarize the older ones too."""


class HybridGCPlugin(GCStrategy[HybridSettings]):
    """Generations: ancient turns are truncated, then middle ones summarized; recent ones stay.

    Each only until the goal is reached. Without a summarizer, middle turns are truncated too.
    """

    name = "gc_hybrid"
    settings_model = HybridSettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = self.begin(history, context_usage, config, reason, budget)
        recent = collection.config.preserve_recent_turns
        ancient, middle = self._generations(collection.turns, recent)
        try:
            if self.settings.summarize_ancient:
                self._summarize(collection, [*ancient, *middle])
            else:
                collection.remove_oldest(ancient, "ancient_truncated")
                self._summarize(collection, middle)
        except SummaryError as error:
            return collection.fail(error)
        collection.clear_recent_results()
        return collection.finish()

    def _generations(
        self, turns: Sequence[Turn], recent: int
    ) -> tuple[Sequence[Turn], Sequence[Turn]]:
        old = turns[: max(0, len(turns) - recent)]
        split = max(0, len(old) - self.settings.summarize_middle_turns)
        return old[:split], old[split:]

    def _summarize(self, collection: Collection, turns: Sequence[Turn]) -> None:
        if self.settings.summarizer is not None:
            writer = SummaryWriter(self.settings, collection.counter)
            collection.summarize_oldest(turns, writer, "middle_summarized")
        elif turns and collection.needs_more:
            collection.details["summarizer"] = "none, so turns were truncated"
            collection.remove_oldest(turns, "truncated_fallback")


def create_plugin() -> HybridGCPlugin:
    """A new instance; call ``initialize`` with its options."""
    return HybridGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    return [
        StrategyInfo(
            name=HybridGCPlugin.name,
            factory=create_plugin,
            summary="Truncates ancient turns, summarizes middle ones, keeps recent ones.",
            config_model=HybridSettings,
        )
    ]
