"""The mark-and-sweep engine: computes roots, candidates and a pruning plan."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from heapq import nlargest
from typing import Final

from jaato_gc import GCConfigError
from jaato_gc_marksweep._pruning_plan import (
    PruningCandidate,
    PruningPlan,
    in_pruning_order,
    make_plan,
)
from jaato_gc_marksweep._reachability import (
    collect_references,
    count_references,
    link_topics,
    mark,
)
from jaato_gc_marksweep._scoring import prune_score
from jaato_gc_marksweep._segments import ContextSegment
from jaato_gc_marksweep._times import as_hours, as_timedelta, time_between, utc_now

logger = logging.getLogger("jaato_gc")

CLOCK_TOLERANCE: Final = timedelta(minutes=1)
"""Clocks of different machines differ: a time this far in the future is not reported."""
OLD_AFTER: Final = 3
"""A segment is in the old generation after this many survived collections."""


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


@dataclass
class GCEngine(IGCEngine):
    """A mark-and-sweep engine: prunes unreachable segments, highest score first.

    Segments change only by `touch` and `record_collection`. A plan does not depend on the order of
    the segments.

    Args:
        recent_messages_count: The number of newest segments of type ``message`` that are roots.
        recent_decision_hours: Decisions of at most this age, in hours, are roots.
        stash_score: Segments with this score or less are pruned last.
        delete_score: Logs and notes with a higher score are deleted; everything else is stashed.
        prune_reachable: Also stash reachable segments, after the unreachable ones.
        now: Returns the current time. A time without a time zone is local time.

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

    recent_messages_count: int = 10
    recent_decision_hours: float = 1.0
    _: KW_ONLY
    stash_score: float = 0.4
    delete_score: float = 0.7
    prune_reachable: bool = False
    now: Callable[[], datetime] = utc_now
    _has_warned: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("recent_messages_count", "recent_decision_hours"):
            if not getattr(self, name) >= 0:  # not "<", which is false for NaN
                raise GCConfigError(f"{name}: expected 0 or more, got {getattr(self, name)}")

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
        last ``recent_decision_hours``.
        """
        now = self.now()
        recent = as_timedelta(self.recent_decision_hours)
        roots = {
            segment.segment_id
            for segment in segments
            if segment.pinned
            or (current_task and segment.task_id == current_task)
            or (active_file and segment.file_path == active_file)
            or (segment.type == "decision" and self._time_since_creation(segment, now) <= recent)
        }
        messages = (
            (-self._time_since_creation(segment, now), segment.segment_id)
            for segment in segments
            if segment.type == "message"
        )
        newest = nlargest(self.recent_messages_count, messages)
        return roots.union(segment_id for _, segment_id in newest)

    def build_references(self, segments: Sequence[ContextSegment]) -> dict[str, set[str]]:
        """Returns the ids that each segment refers to, for `compute_reachability`.

        References are ids in ``references`` and in ``ref:`` tags, known or not. A member of a topic
        refers to the next one, so that all are reachable from each of them.

        Raises:
            GCError: Two segments have the same id.
        """
        return link_topics(segments, collect_references(segments))

    def compute_reachability(
        self, roots: Set[str], references: Mapping[str, Collection[str]]
    ) -> set[str]:
        """Returns the ids of the roots and of all segments that are reachable from them.

        An id that is not a key of *references* has no references. The time is linear in the number
        of ids and references.
        """
        return mark(roots, references)

    def score_segment(self, segment: ContextSegment, now: datetime) -> float:
        """Returns the pruning score of a segment. Higher scores are pruned first.

        The score is a weighted sum of age, type, ``refcount`` and generation, in order of weight.
        It is at least 0.06 and grows by 0.4 per day since the last use. Override this method to use
        your own score.
        """
        return prune_score(segment, self._age_hours(segment, now))

    def analyze_pruning_candidates(
        self, segments: Sequence[ContextSegment], roots: Set[str]
    ) -> list[PruningCandidate]:
        """Returns the segments that can be pruned, in the order of pruning.

        Candidates are the segments that are not reachable from *roots* or from pinned segments.
        With ``prune_reachable``, reachable segments are candidates too. Roots and pinned segments
        are never candidates. Unknown ids among the roots and references are ignored.

        References are ids in ``references`` and in ``ref:`` tags. Segments with the same
        ``topic_id`` are reachable from each other. The score uses the ``refcount`` of a segment or
        the number of other segments that refer to it, whichever is larger.

        Raises:
            GCError: Two segments have the same id.
        """
        now = self.now()
        refcounts = count_references(collect_references(segments))
        kept = {*roots, *(segment.segment_id for segment in segments if segment.pinned)}
        reachable = self.compute_reachability(kept, self.build_references(segments))
        candidates = [
            self._candidate(
                segment, refcounts[segment.segment_id], now,
                is_reachable=segment.segment_id in reachable,
            )
            for segment in segments
            if segment.segment_id not in kept
            and (self.prune_reachable or segment.segment_id not in reachable)
        ]  # fmt: skip
        return in_pruning_order(candidates, self.stash_score)

    def generate_pruning_plan(
        self, candidates: Sequence[PruningCandidate], target_tokens: int
    ) -> PruningPlan:
        """Returns a plan that frees *target_tokens* tokens if possible.

        The plan takes candidates by score, highest first, until the target is met: unreachable
        ones, then reachable ones, then those with ``stash_score`` or less. Unreachable logs and
        notes above ``delete_score`` are deleted; everything else is stashed. The caller carries out
        the plan and then calls `record_collection`.

        Raises:
            GCError: Two candidates have the same segment id.
        """
        ordered = in_pruning_order(candidates, self.stash_score)
        return make_plan(ordered, target_tokens, delete_score=self.delete_score)

    def touch(self, segments: Iterable[ContextSegment]) -> None:
        """Sets the time of the last use of the segments to now."""
        now = self.now()
        for segment in segments:
            segment.last_touched_at = now

    def record_collection(
        self, segments: Iterable[ContextSegment], plan: PruningPlan
    ) -> list[ContextSegment]:
        """Records that a plan was carried out. Returns the segments that remain.

        Their ``gc_survival_count`` is one higher, and their ``generation`` becomes ``old`` at three
        survived collections.
        """
        pruned = {*plan.stash_segments, *plan.delete_segments}
        survivors = [segment for segment in segments if segment.segment_id not in pruned]
        for segment in survivors:
            segment.gc_survival_count += 1
            if segment.gc_survival_count >= OLD_AFTER:
                segment.generation = "old"
        return survivors

    def _candidate(
        self, segment: ContextSegment, references: int, now: datetime, *, is_reachable: bool
    ) -> PruningCandidate:
        if references > segment.refcount:
            # A copy, because an analysis does not change the segments of the host.
            segment = replace(segment, refcount=references)
        score = self.score_segment(segment, now)
        age_hours = self._age_hours(segment, now)
        return PruningCandidate(
            segment.segment_id,
            score,
            segment.count_tokens(),
            _explain(segment, score, age_hours, is_reachable=is_reachable),
            segment.type,
            age_hours,
            is_reachable,
        )

    def _time_since_creation(self, segment: ContextSegment, now: datetime) -> timedelta:
        return self._time_since(segment.created_at, now, segment)

    def _age_hours(self, segment: ContextSegment, now: datetime) -> float:
        """Returns the hours since the last use of a segment; 0 if that is in the future."""
        return max(0.0, as_hours(self._time_since(segment.last_touched_at, now, segment)))

    def _time_since(self, time: datetime, now: datetime, segment: ContextSegment) -> timedelta:
        """Returns the time from *time* to *now*. Reports a time in the future once per engine."""
        span = time_between(time, now)
        if -span > CLOCK_TOLERANCE and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "segment %r: %s is %s in the future and counts as now. A time without a time zone "
                "is local time: use datetime.now() or datetime.now(UTC), not datetime.utcnow(). "
                "Other segments with such times are not reported.",
                segment.segment_id, time, -span,
            )  # fmt: skip
        return span


def _explain(segment: ContextSegment, score: float, age_hours: float, *, is_reachable: bool) -> str:
    reach = "reachable, but of low value" if is_reachable else "unreachable"
    age = "under 1 h" if age_hours < 1 else f"{age_hours:.0f} h"
    count = segment.refcount
    references = f"{count or 'no'} reference{'' if count == 1 else 's'}"
    return f"{reach}; {segment.type}; {age} old; {references}; score {score:.2f}"
