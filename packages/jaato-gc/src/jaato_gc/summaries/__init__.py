"""Summaries: writing, validating and placing them."""

from jaato_gc.summaries.placing import TurnSummarizer
from jaato_gc.summaries.summarizer import Summarizer, SummarizerFunction
from jaato_gc.summaries.writer import NO_SUMMARIZER, Summary, SummarySettings, SummaryWriter

__all__ = [
    "NO_SUMMARIZER",
    "Summarizer",
    "SummarizerFunction",
    "Summary",
    "SummarySettings",
    "SummaryWriter",
    "TurnSummarizer",
]
