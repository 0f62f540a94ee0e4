"""The mark-and-sweep engine: computes roots, candidates and a pruning plan."""

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
    """The interface of an engine that decides which segments of a context to prune."""

    @abstractmethod
    def analyze_pruning_candidates(
        self, segments: Sequence[ContextSegment], roots: Set[str]
    ) -> list[PruningCandidate]:
        """Returns the segments that can be pruned, in the order of pruning."""

    @abstractmethod
    def compute_reachability(
        self, roots: Set[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Returns the ids of the roots and of all segments that are reachable from them."""

    @abstractmethod
    def score_segment(self, segment: ContextSegment, now: datetime) -> float:
        """Returns the pruning score of a segment. Higher scores are pruned first."""

    @abstractmethod
    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """Returns a plan that frees *target_tokens* tokens if possible."""


@dataclass(kw_only=True)
class GCEngine(IGCEngine):
    """A mark-and-sweep engine: prunes unreachable segments, highest score first.

    The engine has no state. Three methods change segments: `analyze_pruning_candidates` sets the
    reference counts, `touch` sets the time of the last use, and `record_collection` updates the
    segments that remain. The plan does not depend on the order of the segments.

    Args:
        recent_messages: The number of newest segments of type ``message`` that are roots.
        decision_hours: Decisions of at most this age, in hours, are roots.
        stash_score: Segments with this score or less are kept.
        delete_score: Logs and notes with a higher score are deleted; everything else is stashed.
        prune_reachable: Also stash reachable segments, after all unreachable ones.
        old_after: The number of survived collections after which a segment is in the old
            generation.
        now: Returns the current time.

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
                "use the same value or a higher one (math.inf to delete nothing)"
            )
        for name, minimum in (("recent_messages", 0), ("decision_hours", 0), ("old_after", 1)):
            if not getattr(self, name) >= minimum:  # not "<", which is false for NaN
                raise GCConfigError(
                    f"{name}: expected {minimum} or more, got {getattr(self, name)}"
                )

    def compute_roots(
        self,
        segments: Sequence[ContextSegment],
        *,
        current_task: str | None = None,
        active_file: str | None = None,
    ) -> set[str]:
        """Returns the ids of the roots. Roots are kept, and so are segments reachable from them.

        Roots are the segments of the current task and of the active file, the newest messages by
        creation time (the greater id if times are equal), pinned segments, and decisions of the
        last ``decision_hours``.
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
        """Returns the ids of the roots and of all segments that are reachable from them.

        An id that is not a key of *references* has no references. The time is linear in the number
        of ids and references.
        """
        return mark(roots, references if isinstance(references, dict) else dict(references))

    def score_segment(self, segment: ContextSegment, now: datetime) -> float:
        """Returns the pruning score of a segment. Higher scores are pruned first.

        The score is a weighted sum of age, type, references and generation, in order of weight. It
        is at least 0.06 and grows by 0.4 per day since the last use. Override this method to use
        your own score.
        """
        [score] = prune_scores([segment], hours_since([segment.last_touched_at], as_utc(now)))
        return score

    def analyze_pruning_candidates(
        self, segments: Sequence[ContextSegment], roots: Set[str]
    ) -> PruningCandidates:
        """Returns the segments that can be pruned, in the order of pruning.

        Candidates are the segments that are not reachable from *roots* or from pinned segments.
        With ``prune_reachable``, reachable segments follow after them. Roots and pinned segments
        are never candidates. Unknown ids among the roots and references are ignored.

        Sets the ``refcount`` of every segment.

        Raises:
            GCError: Two segments have the same id.
        """
        now = as_utc(self.now())
        references = collect_references(segments)
        count_references(segments, references)
        kept = {*roots, *[segment.id for segment in segments if segment.pinned]}
        reachable = self.compute_reachability(kept, references)
        prune_reachable = self.prune_reachable
        prunable: list[ContextSegment] = []
        root_tokens = reachable_tokens = 0
        for segment in segments:
            if segment.id in kept:
                root_tokens += segment.tokens
            elif prune_reachable or segment.id not in reachable:
                prunable.append(segment)
            else:
                reachable_tokens += segment.tokens
        ages = hours_since([segment.last_touched_at for segment in prunable], now)
        scores = self._scores(prunable, ages, now)
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
                for segment, score, age in zip(prunable, scores, ages, strict=True)
            ]
        )
        candidates.order()
        candidates.root_tokens = root_tokens
        candidates.reachable_tokens = reachable_tokens
        return candidates

    def _scores(
        self, segments: Sequence[ContextSegment], ages: Sequence[float], now: datetime
    ) -> list[float]:
        # Unless score_segment is overridden, reuse the ages instead of computing them again.
        if getattr(self.score_segment, "__func__", None) is GCEngine.score_segment:
            return prune_scores(segments, ages)
        return [self.score_segment(segment, now) for segment in segments]

    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """Returns a plan that frees *target_tokens* tokens if possible.

        The plan takes candidates by score, highest first, until the target is met. Candidates with
        ``stash_score`` or less are kept. Unreachable logs and notes above ``delete_score`` are
        deleted; everything else is stashed. The caller carries out the plan and then calls
        `record_collection`.

        Raises:
            GCError: Two candidates have the same segment id.
        """
        return make_plan(
            candidates,
            target_tokens,
            stash_score=self.stash_score,
            delete_score=self.delete_score,
        )

    def touch(self, segments: Iterable[ContextSegment]) -> None:
        """Sets the time of the last use of the segments to now."""
        now = as_utc(self.now())
        for segment in segments:
            segment.last_touched_at = now

    def record_collection(
        self, segments: Sequence[ContextSegment], plan: PruningPlan
    ) -> list[ContextSegment]:
        """Records that a plan was carried out. Returns the segments that remain.

        Updates the remaining segments: ``survival_count`` is one higher, ``generation`` becomes
        ``old`` at ``old_after`` survived collections, and ``refcount`` no longer includes pruned
        segments.

        Raises:
            GCError: Two segments have the same id.
        """
        pruned = {*plan.stash_segments, *plan.delete_segments}
        survivors = [segment for segment in segments if segment.id not in pruned]
        count_references(survivors, collect_references(survivors))
        for segment in survivors:
            segment.survival_count += 1
            if segment.survival_count >= self.old_after:
                segment.generation = "old"
        return survivors
