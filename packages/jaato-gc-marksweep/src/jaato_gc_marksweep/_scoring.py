"""How readily a segment goes."""

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
"""What the type of a segment adds to its score, before weighting."""
DEFAULT_TYPE_SCORE: Final = 0.5
"""The same for all other types."""

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
    """For each segment of some age in hours: the higher, the sooner it goes.

    Old, unreferenced logs score high, fresh decisions low. A day since the last use adds 0.4, so
    after some days the age outweighs the rest.
    """
    return [
        RECENCY_WEIGHT * (age / 24.0)
        + _WEIGHTED_TYPES.get(segment.type, _WEIGHTED_DEFAULT)
        + REFCOUNT_WEIGHT * (1.0 / (segment.refcount + 1))
        + (_WEIGHTED_OLD if segment.generation == "old" else _WEIGHTED_YOUNG)
        for segment, age in zip(segments, ages, strict=True)
    ]
