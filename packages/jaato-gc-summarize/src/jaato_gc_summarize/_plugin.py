"""gc_summarize."""

from jaato_gc import (
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
    hookimpl,
)


class SummarizeSettings(SummarySettings):
    """Options of gc_summarize: those of every strategy that summarizes."""


class SummarizeGCPlugin(GCStrategy[SummarizeSettings]):
    """Compresses the oldest turns that nothing protects into a summary, until the goal is reached.

    Without a summarizer, the summary is extracted without a model: good for trying it out.
    """

    name = "gc_summarize"
    settings_model = SummarizeSettings

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        collection = self.begin(history, context_usage, config, reason, budget)
        try:
            writer = SummaryWriter(self.settings, collection.counter)
            collection.summarize_oldest(collection.turns, writer, "summarized")
        except SummaryError as error:
            return collection.fail(error)
        collection.clear_recent_results()
        return collection.finish()


def create_plugin() -> SummarizeGCPlugin:
    """A new instance; call ``initialize`` with its options."""
    return SummarizeGCPlugin()


@hookimpl
def jaato_gc_register_strategies() -> list[StrategyInfo]:
    return [
        StrategyInfo(
            name=SummarizeGCPlugin.name,
            factory=create_plugin,
            summary="Compresses the oldest turns into a summary.",
            config_model=SummarizeSettings,
        )
    ]
