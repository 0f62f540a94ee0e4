"""Pruning candidates, and the plan that selects some of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jaato_gc import GCError

DELETABLE_TYPES: Final = frozenset({"log", "note"})
"""Segment types that a plan may delete. All other types are stashed."""


@dataclass(slots=True)
class PruningCandidate:
    """A segment that can be pruned.

    Args:
        segment_id: The id of the segment.
        score: The pruning score. Higher scores are pruned first.
        tokens: The tokens that pruning it frees.
        reason: The explanation of the score, such as
            ``unreachable; log; 31 h old; no references; score 1.05``.
        segment_type: The type of the segment.
        age_hours: Hours since the last use.
        is_reachable: Whether it is reachable from a root. Reachable candidates are stashed, never
            deleted.
    """

    segment_id: str
    score: float
    tokens: int
    reason: str = ""
    segment_type: str = "message"
    age_hours: float = 0.0
    is_reachable: bool = False


@dataclass(slots=True)
class PruningPlan:
    """The segments to prune.

    Args:
        candidates: The selected candidates, in the order of pruning.
        total_tokens_freed: The sum of their tokens.
        stash_segments: Ids of the segments to stash.
        delete_segments: Ids of the segments to delete.
        reason: The explanation of the plan in one sentence.
        target_met: Whether the plan frees at least the target.
        shortfall: The number of tokens by which the target is missed; 0 if it is met.
    """

    candidates: list[PruningCandidate]
    total_tokens_freed: int
    stash_segments: list[str]
    delete_segments: list[str]
    reason: str
    target_met: bool = True
    shortfall: int = 0


def in_pruning_order(
    candidates: Iterable[PruningCandidate], stash_score: float
) -> list[PruningCandidate]:
    """Returns the candidates by score, highest first; equal scores by id.

    Reachable candidates follow after unreachable ones, and after them all candidates with
    *stash_score* or less.
    """
    return sorted(
        candidates,
        key=lambda each: (
            each.score <= stash_score,
            each.is_reachable,
            -each.score,
            each.segment_id,
        ),
    )


def make_plan(
    candidates: list[PruningCandidate], target_tokens: int, *, delete_score: float
) -> PruningPlan:
    """Selects candidates in the given order until enough tokens are free.

    Raises:
        GCError: Two candidates have the same segment id.
    """
    _check_ids(candidates)
    plan = PruningPlan([], 0, [], [], "")
    for candidate in candidates:
        if plan.total_tokens_freed >= target_tokens:
            break
        if candidate.tokens > 0:
            plan.candidates.append(candidate)
            plan.total_tokens_freed += candidate.tokens
            may_be_deleted = (
                candidate.score > delete_score
                and candidate.segment_type in DELETABLE_TYPES
                and not candidate.is_reachable
            )
            ids = plan.delete_segments if may_be_deleted else plan.stash_segments
            ids.append(candidate.segment_id)
    plan.shortfall = max(0, target_tokens - plan.total_tokens_freed)
    plan.target_met = plan.shortfall == 0
    plan.reason = _explain(plan, target_tokens)
    return plan


def _check_ids(candidates: list[PruningCandidate]) -> None:
    ids = {candidate.segment_id for candidate in candidates}
    if len(ids) < len(candidates):
        raise GCError(
            f"{len(candidates)} candidates have {len(ids)} distinct segment ids: "
            "pass each segment once, because its tokens would be counted twice"
        )


def _explain(plan: PruningPlan, target_tokens: int) -> str:
    if target_tokens <= 0:
        return "nothing to free: no candidates selected"
    if not plan.candidates:
        return f"target missed by {plan.shortfall:,} tokens: no candidates with tokens to free"
    outcome = "met" if plan.target_met else f"missed by {plan.shortfall:,} tokens"
    return (
        f"target {outcome}: frees {plan.total_tokens_freed:,} of {target_tokens:,} tokens "
        f"({len(plan.stash_segments)} to stash, {len(plan.delete_segments)} to delete)"
    )
