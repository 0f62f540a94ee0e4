from typing import Any

from jaato_gc import GCPlugin
from jaato_gc_hybrid import create_plugin
from jaato_gc_testing import StrategyConformance


def summarizer(_conversation: str) -> str:
    return "Talk."  # shorter than any conversation


def with_options(**options: Any) -> GCPlugin:
    plugin = create_plugin()
    plugin.initialize({"summary_tokens": 20, **options})
    return plugin


class TestHybrid(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        return with_options(summarizer=summarizer, max_summaries=2)


class TestHybridWithoutSummarizer(StrategyConformance):
    uses_policies = False

    @staticmethod
    def factory() -> GCPlugin:
        return create_plugin()
