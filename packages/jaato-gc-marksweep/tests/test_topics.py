"""Topics: the members of one refer to each other."""

from collections.abc import Collection, Iterable, Mapping, Set
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc_marksweep import ContextSegment, GCEngine
from jaato_gc_testing import count_operations

NOW = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def segment(
    segment_id: str, topic_id: str | None = None, *, tags: Iterable[str] = ()
) -> ContextSegment:
    return ContextSegment(
        segment_id,
        "",
        "log",
        created_at=NOW - DAY,
        tags=list(tags),
        topic_id=topic_id,
        tokens=10,
    )


def candidates(segments: list[ContextSegment], *roots: str) -> set[str]:
    found = GCEngine(now=lambda: NOW).analyze_pruning_candidates(segments, {*roots})
    return {each.segment_id for each in found}


@pytest.mark.parametrize("root", ["a", "b", "c"])
def test_a_topic_is_kept_if_one_of_its_members_is_reachable(root: str) -> None:
    segments = [segment("x", "other"), *(segment(each, "topic") for each in "abc"), segment("y")]

    assert candidates(segments, root) == {"x", "y"}


def test_an_unreachable_topic_is_pruned() -> None:
    assert candidates([segment(each, "topic") for each in "abc"]) == {"a", "b", "c"}


def test_a_topic_leads_to_what_its_members_refer_to() -> None:
    segments = [
        segment("root", tags=("ref:a",)),
        segment("a", "one"),
        segment("b", "one", tags=("ref:c",)),
        segment("c", "two"),
        segment("d", "two"),
        segment("e"),
    ]

    assert candidates(segments, "root") == {"e"}


def test_an_id_that_equals_a_topic_is_not_a_member_of_it() -> None:
    segments = [segment("topic"), segment("a", "topic")]

    assert candidates(segments, "topic") == {"a"}
    assert candidates(segments, "a") == {"topic"}


@pytest.mark.parametrize("topic_id", ["", None])
def test_segments_without_a_topic_do_not_refer_to_each_other(topic_id: str | None) -> None:
    assert candidates([segment("a", topic_id), segment("b", topic_id)], "a") == {"b"}


def test_membership_in_a_topic_is_not_counted_as_a_reference() -> None:
    segments = [*(segment(str(number), "topic") for number in range(50)), segment("alone")]

    found = GCEngine(now=lambda: NOW).analyze_pruning_candidates(segments, set())

    assert len({each.score for each in found}) == 1
    assert {each.reason for each in found} == {
        "unreachable; log; 24 h old; no references; score 0.93"
    }


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 3), st.integers(0, 9))),
    st.sets(st.integers(0, 9)),
)
def test_a_topic_is_like_references_of_each_member_to_all_others(
    drawn: dict[int, tuple[int, int]], roots: set[int]
) -> None:
    def segments(*, with_topics: bool) -> list[ContextSegment]:
        members = {
            topic: [f"ref:{each}" for each, (other, _) in drawn.items() if other == topic]
            for topic, _ in drawn.values()
        }
        return [
            segment(
                str(number),
                f"topic {topic}" if with_topics else None,
                tags=(f"ref:{target}", *(() if with_topics else members[topic])),
            )
            for number, (topic, target) in drawn.items()
        ]

    by_topic = candidates(segments(with_topics=True), *map(str, roots))
    assert by_topic == candidates(segments(with_topics=False), *map(str, roots))


def test_the_references_that_a_topic_adds_are_linear_in_its_members() -> None:
    added: list[int] = []

    class Counting(GCEngine):
        def compute_reachability(
            self, roots: Set[str], references: Mapping[str, Collection[str]]
        ) -> set[str]:
            added.append(sum(map(len, references.values())))
            return super().compute_reachability(roots, references)

    for count in (1, 2, 1000):
        segments = [segment(str(number), "topic") for number in range(count)]
        Counting(now=lambda: NOW).analyze_pruning_candidates(segments, {"0"})

    assert added == [1, 2, 1000]


def test_operations_are_linear_in_the_members_of_a_topic() -> None:
    def operations(count: int) -> int:
        segments = [segment(str(number), "topic") for number in range(count)]
        return count_operations(lambda: candidates(segments, "7"))

    assert operations(800) <= 4 * operations(200) * 1.1
