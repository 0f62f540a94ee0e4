"""What could go and why, and what is to go."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, eq
from typing import Final

from jaato_gc import GCError

DELETABLE_TYPES: Final = frozenset({"log", "note"})
"""All else is worth keeping outside the context."""


@dataclass(slots=True)
class PruningCandidate:
    """A segment that could go.

    Args:
        segment_id: The segment.
        score: The higher, the sooner it goes.
        tokens: What that frees.
        segment_type: The segment's type.
        age_hours: Hours since it was last used.
        refcount: How many other segments refer to it.
        is_reachable: Something that stays still leads to it: it goes only after all that nothing
            leads to, and is stashed, never deleted.
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
        """Why it could go, such as ``unreachable; log; 31 h old; no references; score 1.12``."""
        mark = "reachable, but of low value" if self.is_reachable else "unreachable"
        age = "under 1 h" if self.age_hours < 1 else f"{self.age_hours:.0f} h"
        references = f"{self.refcount or 'no'} reference{'' if self.refcount == 1 else 's'}"
        return f"{mark}; {self.segment_type}; {age} old; {references}; score {self.score:.2f}"


class PruningCandidates(list[PruningCandidate]):
    """Candidates, those that go first at the front, and what an analysis found beside them.

    A plain list does as well where one is asked for; a plan made from it knows less about what
    stands in its way.
    """

    root_tokens: int = 0
    """Tokens of roots and pinned segments."""
    reachable_tokens: int = 0
    """Tokens of what the roots lead to and is no candidate for that."""

    def order(self) -> None:
        """Put those that go first at the front: unreachable, high score; of equals by id."""
        # The last key counts most. Sorts by plain values are faster than one by tuples, and those
        # that change nothing are left out: equal scores are rare, as is what is reachable.
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
    """What is to go, so that enough tokens are free.

    Args:
        candidates: What goes, in that order.
        total_tokens_freed: Their tokens.
        stash_segments: Ids of those to be kept elsewhere.
        delete_segments: Ids of those to be forgotten.
        reason: Whether the target is met, and if not, what stands in the way.
        target_tokens: How many tokens were to be freed.
        held: When the target is not met: tokens that stay, by what holds them: ``roots``,
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
        """Tokens by which the target is missed; 0 if it is met."""
        return max(0, self.target_tokens - self.total_tokens_freed)

    @property
    def is_met(self) -> bool:
        """Whether it frees as much as was asked for."""
        return self.shortfall == 0


def make_plan(
    candidates: Iterable[PruningCandidate],
    target_tokens: int,
    *,
    stash_score: float,
    delete_score: float,
) -> PruningPlan:
    """Take candidates, those that go first at the front, until enough tokens are free.

    Raises:
        GCError: Two candidates stand for the same segment.
    """
    ordered = PruningCandidates(candidates)
    ordered.order()
    _check_ids(ordered)
    taken: list[PruningCandidate] = []
    stashed: list[str] = []
    deleted: list[str] = []
    freed = low_score_tokens = 0
    for candidate in ordered:
        if freed >= target_tokens:
            break
        if candidate.score <= stash_score:
            low_score_tokens += candidate.tokens
        elif candidate.tokens > 0:
            taken.append(candidate)
            freed += candidate.tokens
            may_be_deleted = (
                candidate.score > delete_score
                and candidate.segment_type in DELETABLE_TYPES
                and not candidate.is_reachable
            )
            (deleted if may_be_deleted else stashed).append(candidate.segment_id)
    plan = PruningPlan(taken, freed, stashed, deleted, "", target_tokens)
    if not plan.is_met:
        plan.held = _held(candidates, low_score_tokens)
    plan.reason = _explain(plan, stash_score)
    return plan


def _check_ids(candidates: Sequence[PruningCandidate]) -> None:
    ids = {candidate.segment_id for candidate in candidates}
    if len(ids) < len(candidates):
        raise GCError(
            f"{len(candidates)} candidates stand for {len(ids)} segments: "
            "give each segment once, or its tokens would be freed twice"
        )


def _held(candidates: Iterable[PruningCandidate], low_score_tokens: int) -> dict[str, int]:
    held = {"low_score": low_score_tokens}
    if isinstance(candidates, PruningCandidates):
        held = {
            "roots": candidates.root_tokens,
            "reachable": candidates.reachable_tokens,
            **held,
        }
    return {holder: tokens for holder, tokens in held.items() if tokens}


def _explain(plan: PruningPlan, stash_score: float) -> str:
    if plan.target_tokens <= 0:
        return "nothing had to be freed"
    actions = f"{len(plan.stash_segments)} to stash, {len(plan.delete_segments)} to delete"
    freed = f"frees {plan.total_tokens_freed:,} of {plan.target_tokens:,} tokens ({actions})"
    if plan.is_met:
        return f"target met: {freed}"
    holders = {
        "roots": "roots or pinned",
        "reachable": "reachable from roots",
        "low_score": f"scored {stash_score:g} or less",
    }
    held = [f"{tokens:,} tokens are {holders[holder]}" for holder, tokens in plan.held.items()]
    in_the_way = "; ".join(held) if held else "there is nothing else"
    return f"target missed by {plan.shortfall:,} tokens: {freed}; {in_the_way}"
