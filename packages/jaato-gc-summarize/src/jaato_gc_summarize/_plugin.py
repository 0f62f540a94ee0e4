"""gc_summarize."""

from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    StrategyInfo,
    SummarySettings,
    TurnSummarizer,
    hookimpl,
)


class SummarizeSettings(SummarySettings):
    """Options of gc_summarize: those of every strategy that summarizes."""


class SummarizeGCPlugin(GCStrategy[SummarizeSettings]):
    """Replaces the oldest unprotected turns by a summary, until the goal is reached.

    It needs a summarizer, unless ``extractive`` is set.
    """

    name = "gc_summarize"
    settings_model = SummarizeSettings
    needs_summarizer = True

    def select(self, collection: Collection) -> None:
        """Summarizes the oldest turns, then old calls of recent turns."""
        summarizer = TurnSummarizer(collection, self.settings)
        summarizer.summarize_oldest(collection.turns, "summarized")


def create_plugin() -> SummarizeGCPlugin:
    """Returns a new instance; call ``initialize`` to set its options."""
    return SummarizeGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    """Registers gc_summarize."""
    return [
        StrategyInfo(
            name=SummarizeGCPlugin.name,
            factory=create_plugin,
            summary="Replaces the oldest turns by a summary.",
            config_model=SummarizeSettings,
            needs_summarizer=SummarizeGCPlugin.needs_summarizer,
        )
    ]
