"""How readily a segment goes."""

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


def prune_score(segment: ContextSegment, age_hours: float) -> float:
    """The higher, the sooner it goes.

    Old, unreferenced logs score high, fresh decisions low. A day since the last use adds 0.4, so
    after some days the age outweighs the rest.
    """
    return (
        RECENCY_WEIGHT * (age_hours / 24.0)
        + TYPE_WEIGHT * TYPE_SCORES.get(segment.type, DEFAULT_TYPE_SCORE)
        + REFCOUNT_WEIGHT * (1.0 / (segment.refcount + 1))
        + GENERATION_WEIGHT * (OLD_SCORE if segment.generation == "old" else YOUNG_SCORE)
    )
