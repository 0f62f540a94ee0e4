"""The engine: roots, marks, scores, candidates, a plan."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from jaato_gc import GCConfigError
from jaato_gc_marksweep._pruning_plan import (
    PruningCandidate,
    PruningCandidates,
    PruningPlan,
    make_plan,
)
from jaato_gc_marksweep._reachability import collect_references, count_references, mark
from jaato_gc_marksweep._scoring import prune_scores
from jaato_gc_marksweep._segments import ContextSegment
from jaato_gc_marksweep._times import as_timedelta, as_utc, hours_since, is_within, utc_now


class IGCEngine(ABC):
    """What finds out which segments of a context can go."""

    @abstractmethod
    def analyze_pruning_candidates(
        self, segments: Sequence[ContextSegment], roots: Set[str]
    ) -> list[PruningCandidate]:
        """What could go, those that go first at the front."""

    @abstractmethod
    def compute_reachability(
        self, roots: Set[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Ids of the roots and of all that they lead to."""

    @abstractmethod
    def score_segment(self, segment: ContextSegment, now: datetime) -> float:
        """How readily a segment goes: the higher, the sooner."""

    @abstractmethod
    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """What is to go, so that *target_tokens* are freed if possible."""


@dataclass(kw_only=True)
class GCEngine(IGCEngine):
    """Mark and sweep: what no root leads to can go, that with the highest score first.

    The engine keeps nothing between calls. It changes segments in three places, and nothing else
    of them: `analyze_pruning_candidates` counts references, `touch` sets the time of the last use,
    and `record_collection` ages what is left. With the same clock, the same segments in any order
    give the same plan.

    Args:
        recent_messages: The last so many segments of type ``message`` are roots.
        decision_hours: So are decisions that are younger.
        stash_score: What scores no higher than this stays.
        delete_score: Logs and notes that score higher are deleted; all else is stashed.
        prune_reachable: Also stash what roots lead to, once nothing else is left to go.
        old_after: What has survived so many collections is of the old generation.
        now: The clock.

    Examples:
        >>> engine = GCEngine()
        >>> segments = [
        ...     ContextSegment("fix", "Fix the build.", type="note", task_id="t1"),
        ...     ContextSegment("build.log", "ok " * 900, type="log"),
        ... ]
        >>> roots = engine.compute_roots(segments, current_task="t1")
        >>> candidates = engine.analyze_pruning_candidates(segments, roots)
        >>> [candidate.reason for candidate in candidates]
        ['unreachable; log; under 1 h old; no references; score 0.53']
        >>> engine.generate_pruning_plan(candidates, 500).stash_segments
        ['build.log']
    """

    recent_messages: int = 10
    decision_hours: float = 1.0
    stash_score: float = 0.4
    delete_score: float = 0.7
    prune_reachable: bool = False
    old_after: int = 3
    now: Callable[[], datetime] = utc_now

    def __post_init__(self) -> None:
        if self.delete_score < self.stash_score:
            raise GCConfigError(
                f"delete_score={self.delete_score:g} is below stash_score={self.stash_score:g}: "
                "give the same or more (math.inf deletes nothing)"
            )
        for name, least in (("recent_messages", 0), ("decision_hours", 0), ("old_after", 1)):
            if not getattr(self, name) >= least:  # NaN is no number of hours
                raise GCConfigError(f"{name}={getattr(self, name)}: give {least} or more")

    def compute_roots(
        self,
        segments: Sequence[ContextSegment],
        *,
        current_task: str | None = None,
        active_file: str | None = None,
    ) -> set[str]:
        """Ids of what must stay, and makes stay what it refers to.

        These are the segments of the current task and of the active file, the latest messages by
        the time they were made (of equal times the greater id is the later), pinned segments, and
        decisions made in the last hour.
        """
        now = as_utc(self.now())
        recent = as_timedelta(self.decision_hours)
        roots: set[str] = set()
        messages: list[tuple[datetime, str]] = []
        for segment in segments:
            if (
                segment.pinned
                or (segment.task_id == current_task and current_task is not None)
                or (segment.file_path == active_file and active_file is not None)
            ):
                roots.add(segment.id)
            if segment.type == "message":
                messages.append((as_utc(segment.created_at), segment.id))
            elif segment.type == "decision" and is_within(segment.created_at, recent, now):
                roots.add(segment.id)
        messages.sort(reverse=True)
        roots.update(id for _, id in messages[: self.recent_messages])
        return roots

    def compute_reachability(
        self, roots: Set[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Ids of the roots and of all that they lead to.

        What is referred to need not be a key of *references*: it then refers to nothing. The time
        is that of looking at each id and each reference once.
        """
        return mark(roots, references if isinstance(references, dict) else dict(references))

    def score_segment(self, segment: ContextSegment, now: datetime) -> float:
        """How readily a segment goes: the higher, the sooner.

        Age counts most, then type, references and generation: a weighted sum that begins at
        0.06 and grows by 0.4 with each day since the last use. Override it for your own.
        """
        [score] = prune_scores([segment], hours_since([segment.last_touched_at], as_utc(now)))
        return score

    def analyze_pruning_candidates(
        self, segments: Sequence[ContextSegment], roots: Set[str]
    ) -> PruningCandidates:
        """What could go, those that go first at the front.

        That is what neither *roots* nor pinned segments lead to; with ``prune_reachable`` also
        what they do lead to, after the rest. Roots and pinned segments are never in it. Ids among
        the roots or references that no segment has are ignored.

        Changes the segments: sets the ``refcount`` of each to what their references say.

        Raises:
            GCError: Two segments have the same id.
        """
        now = as_utc(self.now())
        references = collect_references(segments)
        count_references(segments, references)
        fixed = {*roots, *[segment.id for segment in segments if segment.pinned]}
        reachable = self.compute_reachability(fixed, references)
        prune_reachable = self.prune_reachable
        swept: list[ContextSegment] = []
        root_tokens = reachable_tokens = 0
        for segment in segments:
            if segment.id in fixed:
                root_tokens += segment.tokens
            elif prune_reachable or segment.id not in reachable:
                swept.append(segment)
            else:
                reachable_tokens += segment.tokens
        ages = hours_since([segment.last_touched_at for segment in swept], now)
        scores = self._scores(swept, ages, now)
        candidates = PruningCandidates(
            [
                PruningCandidate(
                    segment.id,
                    score,
                    segment.tokens,
                    segment.type,
                    age,
                    segment.refcount,
                    prune_reachable and segment.id in reachable,
                )
                for segment, score, age in zip(swept, scores, ages, strict=True)
            ]
        )
        candidates.order()
        candidates.root_tokens = root_tokens
        candidates.reachable_tokens = reachable_tokens
        return candidates

    def _scores(
        self, segments: Sequence[ContextSegment], ages: Sequence[float], now: datetime
    ) -> list[float]:
        # The engine's own score needs an age that is known already: no need to find it again.
        if getattr(self.score_segment, "__func__", None) is GCEngine.score_segment:
            return prune_scores(segments, ages)
        return [self.score_segment(segment, now) for segment in segments]

    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """What is to go, so that *target_tokens* are freed if possible.

        Takes candidates, those with the highest score first, until enough is free: what scores no
        higher than ``stash_score`` stays. Logs and notes above ``delete_score`` are deleted, unless
        something leads to them; all else is stashed. The plan only says so: carrying it out, and
        then calling `record_collection`, is up to you.

        Raises:
            GCError: Two candidates stand for the same segment.
        """
        return make_plan(
            candidates,
            target_tokens,
            stash_score=self.stash_score,
            delete_score=self.delete_score,
        )

    def touch(self, segments: Iterable[ContextSegment]) -> None:
        """Note that these segments were used just now: their age begins anew.

        Changes the segments: sets ``last_touched_at``.
        """
        now = as_utc(self.now())
        for segment in segments:
            segment.last_touched_at = now

    def record_collection(
        self, segments: Sequence[ContextSegment], plan: PruningPlan
    ) -> list[ContextSegment]:
        """Note that a plan was carried out, and return the segments that are left.

        Changes the segments that are left: they have survived one collection more, are of the old
        generation if that makes ``old_after``, and are no longer referred to by what is gone.

        Raises:
            GCError: Two segments have the same id.
        """
        gone = {*plan.stash_segments, *plan.delete_segments}
        survivors = [segment for segment in segments if segment.id not in gone]
        count_references(survivors, collect_references(survivors))
        for segment in survivors:
            segment.survival_count += 1
            if segment.survival_count >= self.old_after:
                segment.generation = "old"
        return survivors
