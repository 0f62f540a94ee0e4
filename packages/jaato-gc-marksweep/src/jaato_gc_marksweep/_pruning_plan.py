"""Pruning candidates, and the plan that selects some of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, eq
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
        segment_type: The type of the segment.
        age_hours: Hours since the last use.
        refcount: The number of other segments that refer to it.
        is_reachable: Whether it is reachable from a root. Reachable candidates are pruned after
            all others, and are stashed, never deleted.
    """

    segment_id: str
    score: float
    tokens: int
    segment_type: str = "message"
    age_hours: float = 0.0
    refcount: int = 0
    is_reachable: bool = False

    @property
    def reason(self) -> str:
        """The reason, such as ``unreachable; log; 31 h old; no references; score 1.12``."""
        mark = "reachable, but of low value" if self.is_reachable else "unreachable"
        age = "under 1 h" if self.age_hours < 1 else f"{self.age_hours:.0f} h"
        references = f"{self.refcount or 'no'} reference{'' if self.refcount == 1 else 's'}"
        return f"{mark}; {self.segment_type}; {age} old; {references}; score {self.score:.2f}"


class PruningCandidates(list[PruningCandidate]):
    """The candidates of an analysis in the order of pruning, and the tokens of other segments.

    A plain list works as well, but a plan from a plain list can't report the tokens of roots and
    reachable segments when it misses its target.
    """

    root_tokens: int = 0
    """Tokens of roots and pinned segments."""
    reachable_tokens: int = 0
    """Tokens of reachable segments that are not candidates."""

    def order(self) -> None:
        """Sorts the candidates: unreachable ones first, then by score (highest first) and id."""
        # Several stable sorts by one value each are faster than one sort by tuples. The sorts by
        # id and by reachability are skipped if they would change nothing, which is common.
        self.sort(key=attrgetter("score"), reverse=True)
        scores = [candidate.score for candidate in self]
        if any(map(eq, scores, scores[1:])):
            self.sort(key=attrgetter("segment_id"))
            self.sort(key=attrgetter("score"), reverse=True)
        reachable = [candidate.is_reachable for candidate in self]
        if any(reachable):
            self.sort(key=attrgetter("is_reachable"))


@dataclass(slots=True)
class PruningPlan:
    """The segments to prune.

    Args:
        candidates: The selected candidates, in the order of pruning.
        total_tokens_freed: The sum of their tokens.
        stash_segments: Ids of the segments to stash.
        delete_segments: Ids of the segments to delete.
        reason: Whether the target is met, and if not, why.
        target_tokens: The number of tokens to free.
        held: If the target is missed: the tokens that are kept, by cause: ``roots``,
            ``reachable`` or ``low_score``.
    """

    candidates: list[PruningCandidate]
    total_tokens_freed: int
    stash_segments: list[str]
    delete_segments: list[str]
    reason: str
    target_tokens: int = 0
    held: dict[str, int] = field(default_factory=dict)

    @property
    def shortfall(self) -> int:
        """The number of tokens by which the target is missed; 0 if it is met."""
        return max(0, self.target_tokens - self.total_tokens_freed)

    @property
    def is_met(self) -> bool:
        """Whether the plan frees at least the target."""
        return self.shortfall == 0


def make_plan(
    candidates: Iterable[PruningCandidate],
    target_tokens: int,
    *,
    stash_score: float,
    delete_score: float,
) -> PruningPlan:
    """Selects candidates in the order of pruning until enough tokens are free.

    Raises:
        GCError: Two candidates have the same segment id.
    """
    ordered = PruningCandidates(candidates)
    ordered.order()
    _check_ids(ordered)
    selected: list[PruningCandidate] = []
    stashed: list[str] = []
    deleted: list[str] = []
    freed = low_score_tokens = 0
    for candidate in ordered:
        if freed >= target_tokens:
            break
        if candidate.score <= stash_score:
            low_score_tokens += candidate.tokens
        elif candidate.tokens > 0:
            selected.append(candidate)
            freed += candidate.tokens
            may_be_deleted = (
                candidate.score > delete_score
                and candidate.segment_type in DELETABLE_TYPES
                and not candidate.is_reachable
            )
            (deleted if may_be_deleted else stashed).append(candidate.segment_id)
    plan = PruningPlan(selected, freed, stashed, deleted, "", target_tokens)
    if not plan.is_met:
        plan.held = _held(candidates, low_score_tokens)
    plan.reason = _explain(plan, stash_score)
    return plan


def _check_ids(candidates: Sequence[PruningCandidate]) -> None:
    ids = {candidate.segment_id for candidate in candidates}
    if len(ids) < len(candidates):
        raise GCError(
            f"{len(candidates)} candidates have {len(ids)} distinct segment ids: "
            "pass each segment once, because its tokens would be counted twice"
        )


def _held(candidates: Iterable[PruningCandidate], low_score_tokens: int) -> dict[str, int]:
    held = {"low_score": low_score_tokens}
    if isinstance(candidates, PruningCandidates):
        held = {
            "roots": candidates.root_tokens,
            "reachable": candidates.reachable_tokens,
            **held,
        }
    return {cause: tokens for cause, tokens in held.items() if tokens}


def _explain(plan: PruningPlan, stash_score: float) -> str:
    if plan.target_tokens <= 0:
        return "nothing to free"
    actions = f"{len(plan.stash_segments)} to stash, {len(plan.delete_segments)} to delete"
    freed = f"frees {plan.total_tokens_freed:,} of {plan.target_tokens:,} tokens ({actions})"
    if plan.is_met:
        return f"target met: {freed}"
    causes = {
        "roots": "roots or pinned",
        "reachable": "reachable from roots",
        "low_score": f"scored {stash_score:g} or less",
    }
    held = [f"{tokens:,} tokens are {causes[cause]}" for cause, tokens in plan.held.items()]
    kept = "; ".join(held) if held else "there are no other segments"
    return f"target missed by {plan.shortfall:,} tokens: {freed}; {kept}"
