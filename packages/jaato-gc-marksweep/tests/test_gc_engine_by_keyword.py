"""Code that was written for the engine of the specification: keywords, plain lists, local times."""

from dataclasses import fields
from datetime import datetime, timedelta

import pytest

from jaato_gc import GCError, estimate_tokens
from jaato_gc_marksweep import ContextSegment, GCEngine, PruningCandidate, PruningPlan


def segment(segment_id: str, type: str = "message", **changes: object) -> ContextSegment:
    """Returns a segment as a host makes it, with times from ``datetime.now()``."""
    now = datetime.now()
    arguments: dict[str, object] = {
        "segment_id": segment_id,
        "text": f"text of {segment_id}",
        "type": type,
        "project_id": "p",
        "task_id": "t",
        "created_at": now,
        "last_touched_at": now,
        "tokens": 100,
        "pinned": False,
        "generation": "young",
        "refcount": 0,
    }
    return ContextSegment(**{**arguments, **changes})  # type: ignore[arg-type]


def old(
    segment_id: str, type: str = "log", *, hours: float = 48, **changes: object
) -> ContextSegment:
    then = datetime.now() - timedelta(hours=hours)
    return segment(segment_id, type, created_at=then, last_touched_at=then, **changes)


def test_a_segment_has_the_fields_of_the_specification() -> None:
    assert [field.name for field in fields(ContextSegment)] == [
        "segment_id", "text", "type", "project_id", "task_id", "created_at", "last_touched_at",
        "pinned", "generation", "gc_survival_count", "refcount", "file_path", "line_range", "tags",
        "references", "topic_id", "tokens", "tier",
    ]  # fmt: skip


def test_a_segment_needs_only_an_id_and_a_text() -> None:
    short = ContextSegment("s", "some text")

    assert (short.type, short.generation, short.refcount) == ("message", "young", 0)
    assert (short.tokens, short.line_range, short.tier) == (None, None, None)
    with pytest.raises(TypeError, match="text"):
        ContextSegment("s")  # type: ignore[call-arg]


def test_tags_and_references_can_be_added_to_a_segment() -> None:
    root, other, third = segment("root", pinned=True), old("other"), old("third")
    root.tags.append("ref:other")
    other.references.add("third")

    assert GCEngine().analyze_pruning_candidates([root, other, third], set()) == []


def test_the_score_of_an_old_log_is_high_and_of_a_new_decision_low() -> None:
    now = datetime.now()

    assert GCEngine().score_segment(old("log"), now) > 0.5
    assert GCEngine().score_segment(segment("decision", "decision"), now) < 0.5


def test_a_refcount_set_by_hand_lowers_the_score() -> None:
    now = datetime.now()
    free, wanted = old("free"), old("wanted", refcount=10)

    assert GCEngine().score_segment(wanted, now) < GCEngine().score_segment(free, now)


def test_a_refcount_set_by_hand_counts_in_an_analysis_and_stays() -> None:
    free, wanted = old("a free"), old("wanted", refcount=10)

    found = GCEngine().analyze_pruning_candidates([wanted, free], set())

    assert [each.segment_id for each in found] == ["a free", "wanted"]
    assert found[0].score - found[1].score == pytest.approx(0.2 - 0.2 / 11, abs=1e-3)
    assert wanted.refcount == 10


def test_tokens_are_estimated_when_they_are_needed() -> None:
    text = "def main() -> None: ...\n" * 20
    unknown = old("unknown", text=text, tokens=None)

    [found] = GCEngine().analyze_pruning_candidates([unknown], set())

    assert found.tokens == estimate_tokens(text)
    assert unknown.tokens is None
    unknown.text = ""
    assert GCEngine().analyze_pruning_candidates([unknown], set())[0].tokens == 0


@pytest.mark.parametrize("field", ["tokens", "refcount"])
def test_a_negative_number_is_an_error(field: str) -> None:
    with pytest.raises(GCError, match=rf"segment 's': {field}: expected 0 or more.*, got -1"):
        ContextSegment("s", "", **{field: -1})  # type: ignore[arg-type]


def test_a_plan_of_handmade_candidates_deletes_old_logs_and_stashes_the_rest() -> None:
    log = PruningCandidate(
        segment_id="log", score=0.8, tokens=100, reason="old", segment_type="log", age_hours=48.0
    )
    note = PruningCandidate(
        segment_id="note", score=0.5, tokens=100, reason="old", segment_type="note", age_hours=2.0
    )

    plan = GCEngine().generate_pruning_plan([note, log], target_tokens=200)

    assert plan.candidates == [log, note]
    assert (plan.delete_segments, plan.stash_segments) == (["log"], ["note"])
    assert (plan.total_tokens_freed, plan.target_met, plan.shortfall) == (200, True, 0)
    assert log.reason == "old"


@pytest.mark.parametrize("target", [0, 1000])
def test_the_reason_of_a_plan_without_candidates_says_so(target: int) -> None:
    plan = GCEngine().generate_pruning_plan([], target)

    assert "no candidates" in plan.reason
    assert (plan.candidates, plan.target_met, plan.shortfall) == ([], target == 0, target)


def test_a_plan_has_plain_fields() -> None:
    plan = PruningPlan(
        candidates=[], total_tokens_freed=0, stash_segments=[], delete_segments=[], reason="none"
    )

    plan.shortfall, plan.target_met = 7, False

    assert (plan.shortfall, plan.target_met, plan.reason) == (7, False, "none")


def test_a_low_score_is_no_reason_to_miss_the_target() -> None:
    fresh = [segment(f"s{number}", "decision") for number in range(10)]

    found = GCEngine().analyze_pruning_candidates(fresh, set())
    plan = GCEngine().generate_pruning_plan(found, 1_000)

    assert max(each.score for each in found) < 0.4
    assert plan.target_met
    assert plan.total_tokens_freed == 1_000


def test_the_first_two_options_can_be_given_by_position() -> None:
    messages = [old(f"m{hours}", "message", hours=hours) for hours in range(4)]
    decisions = [old(f"d{hours}", "decision", hours=hours) for hours in (1, 3)]

    roots = GCEngine(2, 2).compute_roots([*messages, *decisions])

    assert roots == {"m0", "m1", "d1"}


def test_a_full_cycle_over_1000_segments_meets_its_target() -> None:
    types = ("log", "note", "code", "message", "decision", "summary")
    segments = [
        old(
            f"s{number}",
            types[number % 6],
            hours=number / 10,
            tokens=32,
            task_id=f"t{number % 10}",
            tags=[f"ref:s{number // 2}"],
            references={f"s{number // 3}"},
            topic_id=f"topic {number // 20}",
        )
        for number in range(1000)
    ]
    engine = GCEngine(recent_messages_count=3)

    roots = engine.compute_roots(segments[:500], current_task="t3")
    roots = {each for each in roots if each.startswith("s1")}
    found = engine.analyze_pruning_candidates(segments, roots)
    plan = engine.generate_pruning_plan(found, 8_000)

    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert plan.target_met
    assert len(engine.record_collection(segments, plan)) == 750
