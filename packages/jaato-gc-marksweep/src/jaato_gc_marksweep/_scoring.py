"""Computes the pruning score of segments."""

from typing import Final

from jaato_gc_marksweep._segments import ContextSegment

TYPE_SCORES: Final = {
    "log": 1.0,
    "note": 0.8,
    "code": 0.5,
    "message": 0.3,
    "summary": 0.2,
    "decision": 0.1,
}
"""The score of each segment type, before weighting."""
DEFAULT_TYPE_SCORE: Final = 0.5
"""The score of all other types, before weighting."""


def prune_score(segment: ContextSegment, age_hours: float) -> float:
    """Returns the pruning score of a segment. Higher scores are pruned first.

    Old, unreferenced logs score high, and new decisions low. Each day since the last use adds 0.4,
    so after a few days the age outweighs the other terms.

    Args:
        segment: The segment.
        age_hours: Hours since its last use.
    """
    recency_score = age_hours / 24.0
    type_score = TYPE_SCORES.get(segment.type, DEFAULT_TYPE_SCORE)
    refcount_score = 1.0 / (segment.refcount + 1)
    generation_score = 1.0 if segment.generation == "old" else 0.3
    return 0.4 * recency_score + 0.3 * type_score + 0.2 * refcount_score + 0.1 * generation_score
