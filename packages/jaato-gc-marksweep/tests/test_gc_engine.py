"""The mark-and-sweep engine: roots, reachability, scores, candidates and plans."""

import doctest
import math
import random
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaato_gc_marksweep._engine
from jaato_gc import GCConfigError, GCError
from jaato_gc_marksweep import (
    ContextSegment,
    GCEngine,
    Generation,
    IGCEngine,
    PruningCandidate,
    PruningPlan,
)
from jaato_gc_testing import count_operations

NOW = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
TYPES = ["log", "note", "code", "message", "decision", "summary", "diagram"]
GENERATIONS: list[Generation] = ["young", "old"]


def engine(**options: float) -> GCEngine:
    return replace(GCEngine(now=lambda: NOW), **options)  # type: ignore[arg-type]


def hours_ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def segment(
    id: str,
    type: str = "note",
    *,
    age: float = 0.0,
    tokens: int = 100,
    pinned: bool = False,
    refs: Collection[str] = (),
    tags: Collection[str] = (),
    task_id: str | None = None,
    file_path: str | None = None,
    generation: Generation = "young",
    refcount: int = 0,
) -> ContextSegment:
    return ContextSegment(
        id,
        f"text of {id}",
        type,
        task_id=task_id,
        file_path=file_path,
        created_at=hours_ago(age),
        pinned=pinned,
        generation=generation,
        refcount=refcount,
        tags=list(tags),
        references=set(refs),
        tokens=tokens,
    )


def candidate(
    id: str,
    score: float = 0.6,
    *,
    tokens: int = 100,
    type: str = "message",
    is_reachable: bool = False,
) -> PruningCandidate:
    return PruningCandidate(
        id, score, tokens, "by hand", segment_type=type, is_reachable=is_reachable
    )


def ids(candidates: Iterable[PruningCandidate]) -> list[str]:
    return [each.segment_id for each in candidates]


def removed(plan: PruningPlan) -> set[str]:
    return {*plan.stash_segments, *plan.delete_segments}


def cycle(
    gc: GCEngine, segments: list[ContextSegment], target: int, **situation: str
) -> PruningPlan:
    roots = gc.compute_roots(segments, **situation)
    return gc.generate_pruning_plan(gc.analyze_pruning_candidates(segments, roots), target)


def formula(segment: ContextSegment, now: datetime) -> float:
    """Returns the score as specified, for times in the past with a time zone."""
    recency = (now - segment.last_touched_at).total_seconds() / 3600 / 24.0
    type_scores = {
        "log": 1.0, "note": 0.8, "code": 0.5, "message": 0.3, "decision": 0.1, "summary": 0.2,
    }  # fmt: skip
    return (
        0.4 * recency
        + 0.3 * type_scores.get(segment.type, 0.5)
        + 0.2 * (1.0 / (segment.refcount + 1))
        + 0.1 * (1.0 if segment.generation == "old" else 0.3)
    )


def closure(roots: Set[str], references: Mapping[str, Collection[str]]) -> set[str]:
    """Returns the reachable ids by a slow method: adds referenced ids until nothing changes."""
    reached = set(roots)
    while True:
        larger = reached.union(*(references.get(id, ()) for id in reached))
        if larger == reached:
            return reached
        reached = larger


IDS = [f"s{number}" for number in range(12)]
REFERENCES = st.dictionaries(st.sampled_from(IDS), st.sets(st.sampled_from([*IDS, "nowhere"])))


@st.composite
def segment_lists(draw: st.DrawFn) -> list[ContextSegment]:
    chosen = draw(st.lists(st.sampled_from(IDS), unique=True))
    return [
        ContextSegment(
            id,
            "",
            type=draw(st.sampled_from(TYPES)),
            task_id=draw(st.sampled_from([None, "t1", "t2"])),
            file_path=draw(st.sampled_from([None, "a.py", "b.py"])),
            created_at=hours_ago(draw(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 30.0, 200.0]))),
            pinned=draw(st.booleans()) and draw(st.booleans()),
            generation=draw(st.sampled_from(GENERATIONS)),
            tags=draw(st.lists(st.sampled_from(["ref:s1", "ref:s2", "ref:", "todo"]), max_size=2)),
            references=draw(st.sets(st.sampled_from([*IDS, "nowhere"]), max_size=3)),
            topic_id=draw(st.sampled_from([None, None, "one", "two"])),
            tokens=draw(st.integers(0, 50)),
        )
        for id in chosen
    ]


ENGINES = st.builds(
    GCEngine,
    recent_messages_count=st.integers(0, 3),
    prune_reachable=st.booleans(),
    stash_score=st.sampled_from([0.0, 0.4, 0.6]),
    delete_score=st.sampled_from([0.3, 0.7]),
    now=st.just(lambda: NOW),
)
TARGETS = st.integers(-10, 400)


class TestScenario1SimpleRootSetCurrentTaskOnly:
    def test_segments_of_the_current_task_are_roots(self) -> None:
        segments = [
            segment("a", task_id="t1"),
            segment("b", task_id="t2"),
            segment("c"),
            segment("d", task_id="t1"),
        ]

        assert engine().compute_roots(segments, current_task="t1") == {"a", "d"}

    def test_segments_without_a_task_are_not_roots_if_there_is_no_current_task(self) -> None:
        assert engine().compute_roots([segment("a"), segment("b", task_id="t1")]) == set()

    def test_segments_of_other_tasks_are_pruned(self) -> None:
        segments = [segment("mine", task_id="t1"), segment("other", "log", task_id="t2", age=30)]

        plan = cycle(engine(), segments, 100, current_task="t1")

        assert removed(plan) == {"other"}


class TestScenario2ComplexRootSetTaskFileMessagesPinned:
    def test_roots_are_the_union_of_all_five_rules(self) -> None:
        segments = [
            segment("task", task_id="t1", age=90),
            segment("file", "code", file_path="src/a.py", age=90),
            segment("other file", "code", file_path="src/b.py"),
            segment("pinned", "log", pinned=True, age=900),
            segment("fresh decision", "decision", age=0.5),
            segment("stale decision", "decision", age=1.5),
            segment("log", "log"),
            *(segment(f"message {number:02}", "message", age=50 - number) for number in range(25)),
        ]

        roots = engine().compute_roots(segments, current_task="t1", active_file="src/a.py")

        messages = {f"message {number:02}" for number in range(15, 25)}
        assert roots == messages | {"task", "file", "pinned", "fresh decision"}

    def test_a_decision_of_exactly_an_hour_ago_is_a_root(self) -> None:
        segments = [segment("on time", "decision", age=1), segment("late", "decision", age=1.001)]

        assert engine().compute_roots(segments) == {"on time"}

    def test_an_old_decision_that_was_touched_recently_is_not_a_root(self) -> None:
        old = segment("old", "decision", age=5)
        old.last_touched_at = NOW

        assert engine().compute_roots([old]) == set()

    @pytest.mark.parametrize("hours", [1e9, 1e300, math.inf])
    def test_decision_hours_can_be_longer_than_the_longest_timedelta(self, hours: float) -> None:
        first = segment("first", "decision")
        first.created_at = datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))

        assert engine(recent_decision_hours=hours).compute_roots([first]) == {"first"}

    @pytest.mark.parametrize("count", [0, 1, 3, 100])
    def test_the_number_of_recent_messages_can_be_set(self, count: int) -> None:
        segments = [segment(f"m{number}", "message", age=number) for number in range(5)]

        roots = engine(recent_messages_count=count).compute_roots(segments)

        assert roots == {f"m{number}" for number in range(min(count, 5))}

    def test_the_newest_messages_are_chosen_by_time_not_by_position(self) -> None:
        segments = [
            segment("newest", "message", age=1),
            segment("oldest", "message", age=3),
            segment("middle", "message", age=2),
        ]

        assert engine(recent_messages_count=2).compute_roots(segments) == {"newest", "middle"}

    def test_messages_with_equal_times_are_ordered_by_id(self) -> None:
        segments = [segment(id, "message") for id in ("b", "c", "a")]

        assert engine(recent_messages_count=2).compute_roots(segments) == {"b", "c"}


class TestScenario3ReachabilityWithCircularReferences:
    def test_a_cycle_is_reachable_from_any_of_its_segments(self) -> None:
        references = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "x": {"y"}, "y": {"x"}}

        assert engine().compute_reachability({"a"}, references) == {"a", "b", "c"}

    def test_a_self_reference_does_not_make_a_segment_reachable(self) -> None:
        assert engine().compute_reachability({"a"}, {"a": {"a"}, "b": {"b"}}) == {"a"}

    def test_a_referenced_id_without_references_is_reachable(self) -> None:
        assert engine().compute_reachability({"a"}, {"a": {"leaf"}}) == {"a", "leaf"}

    def test_nothing_is_reachable_without_roots(self) -> None:
        assert engine().compute_reachability(set(), {"a": {"b"}}) == set()

    @pytest.mark.parametrize(("root", "step"), [("0", 1), ("49999", -1)])
    def test_a_long_chain_does_not_exceed_the_recursion_limit(self, root: str, step: int) -> None:
        references = {str(number): {str(number + step)} for number in range(50_000)}

        assert len(engine().compute_reachability({root}, references)) == 50_001

    def test_an_unreachable_cycle_is_a_candidate(self) -> None:
        segments = [
            segment("root", refs=["kept"], pinned=True),
            segment("kept", refs=["root"]),
            segment("x", refs=["y"]),
            segment("y", refs=["x", "kept"]),
        ]

        assert ids(engine().analyze_pruning_candidates(segments, set())) == ["x", "y"]

    def test_references_in_fields_and_in_tags_are_followed(self) -> None:
        segments = [
            segment("root", refs={"by field"}, tags=["ref:by tag", "urgent"]),
            segment("by field", refs=["indirect"]),
            segment("by tag"),
            segment("indirect"),
            segment("urgent"),
        ]

        assert ids(engine().analyze_pruning_candidates(segments, {"root"})) == ["urgent"]

    def test_the_references_of_each_segment_are_iterated_once(self) -> None:
        class Counting(list[str]):
            followed = 0

            def __iter__(self) -> Iterator[str]:
                self.followed += 1
                return super().__iter__()

        everything = [str(number) for number in range(60)]
        references = {each: Counting(everything) for each in everything}

        engine().compute_reachability({"7", "30"}, references)

        assert [each.followed for each in references.values()] == [1] * len(everything)

    def test_references_can_be_any_mapping(self) -> None:
        references = ChainMap({"b": {"c"}}, {"a": {"b"}})

        assert engine().compute_reachability({"a"}, references) == {"a", "b", "c"}

    @given(st.sets(st.sampled_from([*IDS, "nowhere"])), REFERENCES)
    def test_reachability_is_the_transitive_closure_of_the_roots(
        self, roots: set[str], references: dict[str, set[str]]
    ) -> None:
        assert engine().compute_reachability(roots, references) == closure(roots, references)


class TestScenario4ScoringWithVariousSegmentTypesAndAges:
    @pytest.mark.parametrize("type", TYPES)
    @pytest.mark.parametrize("age", [0, 0.25, 24, 31, 24 * 365])
    @pytest.mark.parametrize("refcount", [0, 1, 9])
    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_the_score_equals_the_specified_formula(
        self, type: str, age: float, refcount: int, generation: Generation
    ) -> None:
        scored = segment("s", type, age=age, refcount=refcount, generation=generation)

        assert engine().score_segment(scored, NOW) == formula(scored, NOW)

    def test_a_new_decision_with_many_references_has_the_lowest_score(self) -> None:
        lowest = segment("s", "decision", refcount=10**9)

        assert engine().score_segment(lowest, NOW) == pytest.approx(0.06)

    def test_decisions_score_lowest_and_logs_highest(self) -> None:
        scores = {type: engine().score_segment(segment("s", type), NOW) for type in TYPES}

        lowest_first = ["decision", "summary", "message", "code", "diagram", "note", "log"]
        assert sorted(scores, key=lambda type: (scores[type], type)) == lowest_first

    @given(st.floats(0, 1e5), st.floats(0, 1e5), st.sampled_from(TYPES), st.integers(0, 20))
    def test_age_raises_the_score_and_references_lower_it(
        self, one: float, other: float, type: str, refcount: int
    ) -> None:
        def score(age: float, refcount: int, generation: Generation = "young") -> float:
            scored = segment("s", type, age=age, refcount=refcount, generation=generation)
            return engine().score_segment(scored, NOW)

        assert score(min(one, other), refcount) <= score(max(one, other), refcount)
        assert score(one, refcount) > score(one, refcount + 1)
        assert score(one, refcount) < score(one, refcount, "old")

    def test_an_overridden_score_segment_is_used(self) -> None:
        class ByName(GCEngine):
            def score_segment(self, segment: ContextSegment, now: datetime) -> float:  # noqa: ARG002
                return float(segment.segment_id)

        found = ByName().analyze_pruning_candidates(
            [segment("1"), segment("3"), segment("2")], set()
        )

        assert ids(found) == ["3", "2", "1"]


class TestScenario5PruningPlanGenerationForDifferentTokenTargets:
    @pytest.mark.parametrize(
        ("target", "count"), [(1, 1), (100, 1), (101, 2), (250, 3), (1000, 10)]
    )
    def test_candidates_are_selected_until_the_target_is_met(self, target: int, count: int) -> None:
        candidates = [candidate(f"c{number}", 0.9 - number / 100) for number in range(10)]

        plan = engine().generate_pruning_plan(candidates, target)

        assert plan.candidates == candidates[:count]
        assert plan.total_tokens_freed == 100 * count
        assert plan.target_met
        assert plan.shortfall == 0
        assert plan.reason.startswith("target met")

    @pytest.mark.parametrize("target", [0, -1, -(10**9)])
    def test_nothing_is_pruned_if_the_target_is_not_positive(self, target: int) -> None:
        plan = engine().generate_pruning_plan([candidate("a", 9)], target)

        assert (plan.candidates, plan.total_tokens_freed, removed(plan)) == ([], 0, set())
        assert plan.target_met
        assert plan.reason == "nothing to free: no candidates selected"

    def test_a_missed_target_is_reported(self) -> None:
        plan = engine().generate_pruning_plan([candidate("a"), candidate("b", 0.2)], 1500)

        assert not plan.target_met
        assert (plan.total_tokens_freed, plan.shortfall) == (200, 1300)
        assert plan.reason == (
            "target missed by 1,300 tokens: frees 200 of 1,500 tokens (2 to stash, 0 to delete)"
        )

    def test_a_plan_without_segments_frees_nothing(self) -> None:
        plan = cycle(engine(), [], 10)

        assert plan == PruningPlan(
            candidates=[],
            total_tokens_freed=0,
            stash_segments=[],
            delete_segments=[],
            reason="target missed by 10 tokens: no candidates with tokens to free",
            target_met=False,
            shortfall=10,
        )

    def test_candidates_in_any_order_are_selected_by_score(self) -> None:
        candidates = [candidate("low", 0.5), candidate("high", 0.9), candidate("middle", 0.7)]

        plan = engine().generate_pruning_plan(candidates, 200)

        assert ids(plan.candidates) == ["high", "middle"]
        assert ids(candidates) == ["low", "high", "middle"], "the argument is not changed"

    def test_candidates_with_equal_scores_are_ordered_by_id(self) -> None:
        candidates = [candidate(id) for id in ("b", "c", "a")]

        assert engine().generate_pruning_plan(candidates, 150).stash_segments == ["a", "b"]

    @pytest.mark.parametrize(
        ("type", "score", "action"),
        [
            ("log", 0.71, "delete"),
            ("note", 0.71, "delete"),
            ("log", 0.7, "stash"),
            ("log", 0.41, "stash"),
            ("log", 0.4, "stash"),
            ("log", 0.0, "stash"),
            ("code", 9.0, "stash"),
            ("decision", 9.0, "stash"),
            ("diagram", 9.0, "stash"),
            ("code", 0.4, "stash"),
        ],
    )
    def test_type_and_score_decide_the_action(self, type: str, score: float, action: str) -> None:
        plan = engine().generate_pruning_plan([candidate("s", score, type=type)], 1)

        assert plan.stash_segments == (["s"] if action == "stash" else [])
        assert plan.delete_segments == (["s"] if action == "delete" else [])

    def test_an_infinite_delete_score_deletes_nothing(self) -> None:
        gc = engine(delete_score=math.inf)

        plan = gc.generate_pruning_plan([candidate("s", 1e9, type="log")], 1)

        assert plan.stash_segments == ["s"]

    def test_a_segment_without_tokens_is_kept(self) -> None:
        plan = engine().generate_pruning_plan([candidate("empty", 2, tokens=0), candidate("a")], 10)

        assert removed(plan) == {"a"}

    def test_duplicate_candidates_are_an_error(self) -> None:
        with pytest.raises(GCError, match="2 candidates have 1 distinct segment ids: pass each"):
            engine().generate_pruning_plan([candidate("a"), candidate("a")], 10)

    @given(segment_lists(), ENGINES, TARGETS)
    def test_a_target_is_missed_only_if_all_candidates_with_tokens_are_pruned(
        self, segments: list[ContextSegment], gc: GCEngine, target: int
    ) -> None:
        found = gc.analyze_pruning_candidates(segments, gc.compute_roots(segments))

        plan = gc.generate_pruning_plan(found, target)

        assert plan.target_met or removed(plan) == {
            each.segment_id for each in found if each.tokens
        }

    @given(segment_lists(), ENGINES, TARGETS)
    def test_the_token_sums_of_a_plan_are_consistent(
        self, segments: list[ContextSegment], gc: GCEngine, target: int
    ) -> None:
        tokens = {each.segment_id: each.count_tokens() for each in segments}

        plan = cycle(gc, segments, target, current_task="t1", active_file="a.py")

        assert sorted([*plan.stash_segments, *plan.delete_segments]) == sorted(ids(plan.candidates))
        assert plan.total_tokens_freed == sum(tokens[id] for id in removed(plan))
        assert plan.target_met == (plan.total_tokens_freed >= target)
        assert plan.shortfall == max(0, target - plan.total_tokens_freed)
        if plan.target_met:
            assert plan.total_tokens_freed - tokens.get(
                plan.candidates[-1].segment_id if plan.candidates else "", 0
            ) < max(target, 1), "the last selected candidate was not needed"

    @given(segment_lists(), ENGINES, TARGETS, st.randoms())
    def test_the_plan_does_not_depend_on_the_order_of_the_segments(
        self, segments: list[ContextSegment], gc: GCEngine, target: int, rng: random.Random
    ) -> None:
        shuffled = deepcopy(segments)
        rng.shuffle(shuffled)

        assert cycle(gc, segments, target) == cycle(gc, shuffled, target)

    @given(segment_lists(), ENGINES, TARGETS)
    def test_the_highest_scores_are_selected_first(
        self, segments: list[ContextSegment], gc: GCEngine, target: int
    ) -> None:
        found = gc.analyze_pruning_candidates(segments, gc.compute_roots(segments))
        plan = gc.generate_pruning_plan(found, target)

        order = [
            (each.score <= gc.stash_score, each.is_reachable, -each.score, each.segment_id)
            for each in found
        ]
        assert order == sorted(order)
        if not gc.prune_reachable:
            assert [-each.score for each in found] == sorted(-each.score for each in found)
        eligible = [each for each in found if each.tokens]
        assert plan.candidates == eligible[: len(plan.candidates)]


class TestScenario6PinnedSegmentsExcludedFromPruning:
    def test_a_pinned_segment_is_not_a_candidate_even_if_it_is_not_among_the_roots(self) -> None:
        segments = [segment("pinned", "log", age=999, pinned=True), segment("free", "log", age=999)]

        assert ids(engine().analyze_pruning_candidates(segments, set())) == ["free"]

    def test_segments_reachable_from_a_pinned_segment_are_kept(self) -> None:
        segments = [
            segment("pinned", pinned=True, refs=["kept"]),
            segment("kept", "log", age=999, refs=["kept too"]),
            segment("kept too", "log", age=999),
        ]

        assert engine().analyze_pruning_candidates(segments, set()) == []

    def test_a_pinned_segment_is_kept_with_prune_reachable(self) -> None:
        segments = [
            segment("pinned", "log", age=999, pinned=True, refs=["a"]),
            segment("a", "log", age=999, refs=["pinned"]),
        ]

        assert removed(cycle(engine(prune_reachable=True), segments, 10**6)) == {"a"}

    def test_pinned_segments_and_roots_are_kept_if_an_override_marks_nothing(self) -> None:
        class MarksNothing(GCEngine):
            def compute_reachability(
                self,
                roots: Set[str],  # noqa: ARG002
                references: Mapping[str, Collection[str]],  # noqa: ARG002
            ) -> set[str]:
                return set()

        segments = [segment("pinned", pinned=True), segment("root"), segment("free")]

        assert ids(MarksNothing().analyze_pruning_candidates(segments, {"root"})) == ["free"]

    @given(segment_lists(), ENGINES, TARGETS, st.sets(st.sampled_from([*IDS, "nowhere"])))
    def test_pinned_segments_and_roots_are_never_pruned(
        self, segments: list[ContextSegment], gc: GCEngine, target: int, roots: set[str]
    ) -> None:
        found = gc.analyze_pruning_candidates(segments, roots)
        plan = gc.generate_pruning_plan(found, target)

        kept = roots | {each.segment_id for each in segments if each.pinned}
        assert kept.isdisjoint(ids(found))
        assert kept.isdisjoint(removed(plan))

    @given(segment_lists(), TARGETS)
    def test_reachable_segments_are_not_pruned_by_default(
        self, segments: list[ContextSegment], target: int
    ) -> None:
        gc = engine()
        references = {
            each.segment_id: each.referenced_ids()
            | {
                other.segment_id
                for other in segments
                if each.topic_id and other.topic_id == each.topic_id
            }
            for each in segments
        }
        roots = gc.compute_roots(segments, current_task="t1")

        plan = cycle(gc, segments, target, current_task="t1")

        assert removed(plan).isdisjoint(closure(roots, references))


class WatchedId(str):
    """An id whose hashing and comparisons are Python calls, which `count_operations` counts."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


class WatchedSegment(ContextSegment):
    """A segment whose attribute accesses are Python calls, which `count_operations` counts."""

    def __getattribute__(self, name: str) -> object:
        return object.__getattribute__(self, name)


class TestScenario7PerformanceWithLargeContext:
    """Counts operations, which tell how the time grows. The benchmarks measure the time itself."""

    def test_a_context_of_200_000_segments_meets_its_target(self) -> None:
        count = 200_000
        segments = [
            ContextSegment(
                str(number),
                "",
                type=TYPES[number % len(TYPES)],
                task_id=str(number % 1000),
                created_at=hours_ago(number / 1000),
                references={str(number * 7 % count)} if number % 2 else set(),
                tokens=10,
            )
            for number in range(count)
        ]

        plan = cycle(engine(), segments, count * 3, current_task="1")

        assert plan.total_tokens_freed == count * 3

    @pytest.mark.parametrize("prune_reachable", [False, True])
    def test_each_segment_is_scored_at_most_once(self, prune_reachable: bool) -> None:
        scored: list[str] = []

        class Counting(GCEngine):
            def score_segment(self, segment: ContextSegment, now: datetime) -> float:
                scored.append(segment.segment_id)
                return super().score_segment(segment, now)

        segments = [segment(str(number), refs=[str(number // 2)]) for number in range(100)]

        Counting(prune_reachable=prune_reachable).analyze_pruning_candidates(segments, {"99"})

        assert len(scored) == len(set(scored)) == (99 if prune_reachable else 92)

    @pytest.mark.parametrize("prune_reachable", [False, True])
    @pytest.mark.parametrize("hours_apart", [0, 0.01])
    @pytest.mark.parametrize("references_each", [1, 3])
    def test_operations_grow_with_segments_and_references_no_faster_than_sorting(
        self, references_each: int, hours_apart: float, prune_reachable: bool
    ) -> None:
        def operations(count: int) -> int:
            segments: list[ContextSegment] = [
                WatchedSegment(
                    WatchedId(number),
                    "",
                    type=TYPES[number % len(TYPES)],
                    task_id=str(number % 20),
                    created_at=hours_ago(30 + number * hours_apart),
                    references={
                        WatchedId((number * 7 + step) % count) for step in range(references_each)
                    },
                    tokens=10,
                )
                for number in range(count)
            ]
            gc = engine(prune_reachable=prune_reachable)
            return count_operations(lambda: cycle(gc, segments, count * 10, current_task="1"))

        sorting = math.log(800) / math.log(200)  # candidates are sorted, in n log n
        assert operations(800) <= 4 * operations(200) * sorting

    def test_an_analysis_reads_the_clock_once(self) -> None:
        readings: list[datetime] = []

        def clock() -> datetime:
            readings.append(NOW)
            return NOW

        GCEngine(now=clock).analyze_pruning_candidates([segment(id) for id in IDS], set())

        assert len(readings) == 1


class TestAcceptanceCriteria:
    """The acceptance criteria of the specification, on one realistic context."""

    @pytest.fixture
    def context(self) -> list[ContextSegment]:
        """The context of a few days of work on one project."""
        return [
            segment("plan", "decision", age=70, task_id="t1", refs=["design"], tokens=80),
            segment("design", "summary", age=71, tokens=400),
            segment(
                "parser.py", "code", age=2, file_path="parser.py", refs=["grammar"], tokens=900
            ),
            segment("grammar", "note", age=60, tokens=300),
            segment("old build", "log", age=60, tokens=4000),
            segment("new build", "log", age=1, tokens=2500),
            segment("scratch", "note", age=40, tokens=200),
            segment("licence", "note", age=99, pinned=True, tokens=50),
            segment("use LL(1)", "decision", age=0.5, tokens=40),
            *(segment(f"m{n:02}", "message", age=30 - n, tokens=60) for n in range(20)),
        ]

    SITUATION = {"current_task": "t1", "active_file": "parser.py"}  # noqa: RUF012

    def test_root_sets_identify_essential_context(self, context: list[ContextSegment]) -> None:
        roots = engine().compute_roots(context, **self.SITUATION)

        messages = {f"m{number}" for number in range(10, 20)}
        assert roots == messages | {"plan", "parser.py", "licence", "use LL(1)"}

    def test_reachability_finds_all_referenced_segments(
        self, context: list[ContextSegment]
    ) -> None:
        roots = engine().compute_roots(context, **self.SITUATION)
        found = engine().analyze_pruning_candidates(context, roots)

        assert {"design", "grammar"}.isdisjoint(ids(found))

    def test_old_logs_and_notes_are_pruned_first(self, context: list[ContextSegment]) -> None:
        roots = engine().compute_roots(context, **self.SITUATION)
        found = engine().analyze_pruning_candidates(context, roots)

        assert ids(found)[:3] == ["old build", "scratch", "m00"]

    def test_a_plan_meets_its_target(self, context: list[ContextSegment]) -> None:
        plan = cycle(engine(), context, 4100, **self.SITUATION)

        assert (plan.delete_segments, plan.stash_segments) == (["old build", "scratch"], [])
        assert plan.total_tokens_freed == 4200
        assert plan.target_met

    def test_pinned_segments_are_never_pruned(self, context: list[ContextSegment]) -> None:
        plan = cycle(engine(stash_score=0.0, prune_reachable=True), context, 10**6)

        assert "licence" not in removed(plan)

    def test_repeated_collections_shrink_the_context_and_age_the_survivors(
        self, context: list[ContextSegment]
    ) -> None:
        gc = engine()
        sizes = []
        for _ in range(3):
            plan = cycle(gc, context, 2000, **self.SITUATION)
            context = gc.record_collection(context, plan)
            sizes.append(sum(each.count_tokens() for each in context))

        assert sizes == sorted(sizes, reverse=True)
        assert {each.generation for each in context} == {"old"}
        assert {"plan", "design", "parser.py", "grammar", "licence"} <= {
            each.segment_id for each in context
        }


class TestPruneReachable:
    SEGMENTS: Callable[[], list[ContextSegment]] = staticmethod(
        lambda: [
            segment("root", "decision", task_id="t1", refs=["reached log", "reached summary"]),
            segment("reached log", "log", age=99),
            segment("reached summary", "summary", age=0),
            segment("garbage", "code", age=10),
        ]
    )

    def test_reachable_segments_are_kept_by_default(self) -> None:
        plan = cycle(engine(), self.SEGMENTS(), 300, current_task="t1")

        assert removed(plan) == {"garbage"}
        assert plan.shortfall == 200

    def test_reachable_segments_are_stashed_after_unreachable_ones(self) -> None:
        plan = cycle(engine(prune_reachable=True), self.SEGMENTS(), 300, current_task="t1")

        assert plan.stash_segments == ["garbage", "reached log", "reached summary"]
        assert plan.delete_segments == []

    def test_segments_with_the_stash_score_or_less_are_pruned_last(self) -> None:
        """Stale content goes before fresh content, also if it is reachable."""
        segments = [*self.SEGMENTS(), segment("fresh", "decision", age=2, tokens=10)]
        gc = engine(prune_reachable=True)

        found = gc.analyze_pruning_candidates(segments, {"root"})

        assert ids(found) == ["garbage", "reached log", "fresh", "reached summary"]
        assert [each.score <= gc.stash_score for each in found] == [False, False, True, True]

    def test_reachable_segments_are_kept_if_unreachable_ones_suffice(self) -> None:
        plan = cycle(engine(prune_reachable=True), self.SEGMENTS(), 100, current_task="t1")

        assert removed(plan) == {"garbage"}


class TestReasons:
    def test_the_reason_of_an_unreachable_log(self) -> None:
        [found] = engine().analyze_pruning_candidates([segment("s", "log", age=31)], set())

        assert found.reason == "unreachable; log; 31 h old; no references; score 1.05"

    def test_the_reason_of_a_new_note_with_one_reference(self) -> None:
        segments = [segment("a", refs=["b"]), segment("b", age=0.9)]

        found = engine().analyze_pruning_candidates(segments, set())

        assert found[1].reason == "unreachable; note; under 1 h old; 1 reference; score 0.39"

    def test_the_reason_of_a_reachable_segment(self) -> None:
        segments = [segment("a", refs=["c"]), segment("b", refs=["c"]), segment("c", age=48)]

        [found] = engine(prune_reachable=True).analyze_pruning_candidates(segments, {"a", "b"})

        assert found.reason == (
            "reachable, but of low value; note; 48 h old; 2 references; score 1.14"
        )


class TestBookkeeping:
    def test_references_in_fields_and_tags_are_counted_once_per_segment(self) -> None:
        segments = [
            segment("a", refs=["a", "b"], tags=["ref:b", "ref:c", "ref:c"]),
            segment("b", refs={"c"}),
            segment("c", refs={"nowhere"}),
        ]

        found = engine().analyze_pruning_candidates(segments, set())

        counts = {each.segment_id: each.reason.split("; ")[3] for each in found}
        assert counts == {"a": "no references", "b": "1 reference", "c": "2 references"}

    @pytest.mark.parametrize(("known", "counted"), [(0, 2), (1, 2), (2, 2), (7, 7)])
    def test_the_larger_of_the_known_and_the_found_references_counts(
        self, known: int, counted: int
    ) -> None:
        segments = [
            segment("a", refs=["c"]),
            segment("b", refs=["c"]),
            segment("c", age=5, refcount=known),
        ]

        found = engine().analyze_pruning_candidates(segments, set())

        [score] = [each.score for each in found if each.segment_id == "c"]
        assert score == formula(segment("c", age=5, refcount=counted), NOW)

    @given(segment_lists(), ENGINES, TARGETS)
    def test_an_analysis_and_a_plan_change_no_segment(
        self, segments: list[ContextSegment], gc: GCEngine, target: int
    ) -> None:
        before = deepcopy(segments)

        cycle(gc, segments, target, current_task="t1")

        assert segments == before

    def test_references_of_pruned_segments_are_not_counted_any_more(self) -> None:
        gc = engine()
        segments = [segment("pruned", "log", age=99, refs=["kept"]), segment("kept", age=9)]
        plan = cycle(gc, segments, 100)
        assert removed(plan) == {"pruned"}

        [kept] = gc.analyze_pruning_candidates(gc.record_collection(segments, plan), set())

        assert "no references" in kept.reason

    def test_pruned_segments_do_not_age(self) -> None:
        gc = engine()
        segments = [segment("stashed", "code", age=50), segment("deleted", "log", age=50)]
        plan = cycle(gc, segments, 200)

        assert gc.record_collection(segments, plan) == []
        assert [each.gc_survival_count for each in segments] == [0, 0]

    def test_touch_sets_the_time_of_the_last_use(self) -> None:
        used, unused = segment("used", age=50), segment("unused", age=50)

        engine().touch([used])

        assert (used.last_touched_at, used.created_at) == (NOW, hours_ago(50))
        assert unused.last_touched_at == hours_ago(50)

    def test_a_segment_is_old_after_surviving_three_collections(self) -> None:
        gc = engine()
        survivor = segment("s")
        plan = gc.generate_pruning_plan([], 0)

        for count, generation in [(1, "young"), (2, "young"), (3, "old"), (4, "old")]:
            gc.record_collection([survivor], plan)
            assert (survivor.gc_survival_count, survivor.generation) == (count, generation)


class TestSegments:
    def test_times_are_now_unless_given(self) -> None:
        before = datetime.now(UTC)
        created = ContextSegment("s", "")

        assert before <= created.created_at <= datetime.now(UTC)
        assert created.last_touched_at == created.created_at
        assert ContextSegment("s", "", created_at=NOW).last_touched_at == NOW

    @pytest.mark.parametrize("field", ["references", "tags"])
    def test_a_string_instead_of_a_collection_of_strings_is_an_error(self, field: str) -> None:
        with pytest.raises(GCError, match=r"segment 's': .* put it into a list"):
            ContextSegment("s", "", **{field: "abc"})  # type: ignore[arg-type]

    def test_unknown_ids_are_ignored(self) -> None:
        segments = [segment("a", refs=["nowhere"], tags=["ref:", "ref:elsewhere"])]

        assert ids(engine().analyze_pruning_candidates(segments, {"unknown"})) == ["a"]
        assert engine().analyze_pruning_candidates(segments, {"unknown", "a"}) == []

    def test_duplicate_ids_are_an_error(self) -> None:
        segments = [segment("a"), segment("b"), segment("c"), segment("b")]

        with pytest.raises(
            GCError, match=r"segment 3 of 4 has the id 'b' of an earlier one: use unique ids"
        ):
            engine().analyze_pruning_candidates(segments, set())

    def test_an_empty_context_has_no_roots_and_no_candidates(self) -> None:
        found = engine().analyze_pruning_candidates([], {"a"})

        assert found == []
        assert engine().compute_roots([], current_task="t1", active_file="a.py") == set()


class TestOptions:
    def test_the_defaults_are_those_of_the_specification(self) -> None:
        gc = GCEngine()

        assert (gc.recent_messages_count, gc.recent_decision_hours) == (10, 1)
        assert (gc.stash_score, gc.delete_score, gc.prune_reachable) == (0.4, 0.7, False)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("recent_messages_count", -1),
            ("recent_decision_hours", -0.5),
            ("recent_decision_hours", math.nan),
        ],
    )
    def test_options_out_of_range_are_refused(self, option: str, value: float) -> None:
        with pytest.raises(GCConfigError, match=f"{option}: expected . or more, got {value}"):
            engine(**{option: value})

    def test_the_interface_has_the_methods_of_the_specification(self) -> None:
        assert IGCEngine.__abstractmethods__ == {
            "analyze_pruning_candidates",
            "compute_reachability",
            "generate_pruning_plan",
            "score_segment",
        }
        assert isinstance(GCEngine(), IGCEngine)


@settings(max_examples=30)
@given(segment_lists(), ENGINES, TARGETS)
def test_a_repeated_analysis_gives_the_same_plan(
    segments: list[ContextSegment], gc: GCEngine, target: int
) -> None:
    assert cycle(gc, segments, target) == cycle(gc, segments, target)


def test_the_examples_in_the_docstrings_run() -> None:
    result = doctest.testmod(jaato_gc_marksweep._engine)

    assert result.attempted
    assert not result.failed
