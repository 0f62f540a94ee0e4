"""Summaries: writing, validating and placing them."""

from jaato_gc.summaries.placing import TurnSummarizer as TurnSummarizer
from jaato_gc.summaries.summarizer import Summarizer as Summarizer
from jaato_gc.summaries.summarizer import SummarizerFunction as SummarizerFunction
from jaato_gc.summaries.writer import NO_SUMMARIZER as NO_SUMMARIZER
from jaato_gc.summaries.writer import SummarySettings as SummarySettings
from jaato_gc.summaries.writer import SummaryWriter as SummaryWriter
