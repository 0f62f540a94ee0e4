"""Computes the pruning score of segments."""

from collections.abc import Iterable
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

RECENCY_WEIGHT: Final = 0.4
TYPE_WEIGHT: Final = 0.3
REFCOUNT_WEIGHT: Final = 0.2
GENERATION_WEIGHT: Final = 0.1

YOUNG_SCORE: Final = 0.3
OLD_SCORE: Final = 1.0


_WEIGHTED_TYPES = {type: TYPE_WEIGHT * score for type, score in TYPE_SCORES.items()}
_WEIGHTED_DEFAULT = TYPE_WEIGHT * DEFAULT_TYPE_SCORE
_WEIGHTED_YOUNG, _WEIGHTED_OLD = GENERATION_WEIGHT * YOUNG_SCORE, GENERATION_WEIGHT * OLD_SCORE


def prune_scores(segments: Iterable[ContextSegment], ages: Iterable[float]) -> list[float]:
    """Returns the pruning score of each segment. Higher scores are pruned first.

    Old, unreferenced logs score high, and new decisions low. Each day since the last use adds 0.4,
    so after a few days the age outweighs the other terms.

    Args:
        segments: The segments.
        ages: Hours since the last use of each segment.
    """
    return [
        RECENCY_WEIGHT * (age / 24.0)
        + _WEIGHTED_TYPES.get(segment.type, _WEIGHTED_DEFAULT)
        + REFCOUNT_WEIGHT * (1.0 / (segment.refcount + 1))
        + (_WEIGHTED_OLD if segment.generation == "old" else _WEIGHTED_YOUNG)
        for segment, age in zip(segments, ages, strict=True)
    ]
