"""Facts: names that a summary should keep, and summaries without a model."""

from jaato_gc.facts.extractive import extractive_summary
from jaato_gc.facts.names import extract_facts, facts_within, is_mentioned

__all__ = ["extract_facts", "extractive_summary", "facts_within", "is_mentioned"]
