"""Tests of the ranking: order, reasons and significance."""

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc_lab import Cell, CellResult, Comparison, ReplayedRequest, ReplayReport, rank
from jaato_gc_lab._ranking import is_significant


def report(
    strategy: str,
    cost: float,
    *,
    overflows: int = 0,
    violations: int = 0,
    lookups: float = 0.0,
    lost: int = 0,
) -> ReplayReport:
    requests = [
        ReplayedRequest(1, 100, {}, 0, 10, fits=number >= overflows) for number in range(10)
    ]
    return ReplayReport(
        "run", strategy, 8_000, 80, 60, requests, overflows=overflows,
        violations=["bad"] * violations, cost=cost, lookup_cost=lookups, names_used=10,
        context_used=10, context_lost=lost,
    )  # fmt: skip


def comparison(reports: Mapping[str, Sequence[ReplayReport | None]]) -> Comparison:
    """Returns a comparison from lists of reports by strategy, with one report per transcript."""
    results = [
        CellResult(Cell(f"{number}.json", 0, f"{number}.json", name, 8_000), each, None)
        for name, own in reports.items()
        for number, each in enumerate(own)
    ]
    return Comparison(list(reports), [8_000], results)


def places(reports: Mapping[str, Sequence[ReplayReport | None]]) -> list[str]:
    baseline = [report("none", 2.0) for _ in next(iter(reports.values()))]
    [ranking] = rank(comparison({"none": baseline, **reports}))
    assert [place.position for place in ranking.places] == list(range(1, len(reports) + 1))
    return [place.strategy for place in ranking.places]


def test_violations_rank_before_refused_runs_and_refused_runs_before_cost() -> None:
    found = places(
        {
            "cheap_but_invalid": [report("a", 0.1, violations=1)] * 3,
            "cheap_but_overflows": [report("b", 0.2, overflows=1)] * 3,
            "expensive": [report("c", 1.5)] * 3,
            "better": [report("d", 1.0)] * 3,
        }
    )

    assert found == ["better", "expensive", "cheap_but_overflows", "cheap_but_invalid"]


def test_lost_context_ranks_before_cost() -> None:
    found = places(
        {
            "cheap": [report("a", 0.1, lost=3)] * 3,
            "careful": [report("b", 0.9, lost=1)] * 3,
        }
    )

    assert found == ["careful", "cheap"]


def test_cost_includes_repeated_lookups() -> None:
    found = places(
        {
            "many_lookups": [report("a", 1.0, lookups=0.5)],
            "few_lookups": [report("b", 1.2, lookups=0.1)],
        }
    )

    assert found == ["few_lookups", "many_lookups"]


@pytest.mark.parametrize(
    ("refused", "runs", "words"),
    [
        (1, 1, "the run is refused after 0% of it"),
        (1, 3, "1 of 3 runs is refused, after 0% of the run"),
        (2, 3, "2 of 3 runs are refused, at the median after 0% of the run"),
    ],
)
def test_refused_runs_are_counted_in_words(refused: int, runs: int, words: str) -> None:
    reports = [report("none", 2.0, overflows=int(number < refused)) for number in range(runs)]
    [ranking] = rank(comparison({"none": reports, "good": [report("good", 1.0)] * runs}))

    assert ranking.note.startswith(f"without collection, {words}: ")


def test_reasons_and_note_explain_the_ranking() -> None:
    runs = [1.0 + number / 100 for number in range(10)]
    [ranking] = rank(
        comparison(
            {
                "none": [report("none", 2.0, overflows=3) for _ in runs],
                "good": [report("good", cost) for cost in runs],
                "worse": [report("worse", cost + 0.5, overflows=1) for cost in runs],
            }
        )
    )

    good, worse = ranking.places
    assert good.reason.startswith("every request fits; 0.0% of the context used later was lost")
    assert worse.reason.startswith("10 of 10 runs are refused, at the median after 0% of the run")
    assert worse.reason.endswith("has more refused runs than good")
    assert not worse.below_noise
    assert ranking.note == (
        "without collection, 10 of 10 runs are refused, at the median after 0% of the run: "
        "30 of 100 requests do not fit"
    )


def test_violations_are_always_significant() -> None:
    reports = {"none": [report("none", 3.0)], "a": [report("a", 2.0)]}
    [ranking] = rank(comparison({**reports, "b": [report("b", 1.0, violations=1)]}))

    assert not ranking.places[1].below_noise
    assert ranking.places[1].reason.endswith("has more violations than a")


def test_random_differences_are_not_significant() -> None:
    chance = random.Random(1)
    first = [report("a", 1.0 + chance.random()) for _ in range(20)]
    second = [report("b", 1.0 + chance.random()) for _ in range(20)]
    [ranking] = rank(comparison({"none": [report("none", 2.0)] * 20, "a": first, "b": second}))

    assert ranking.places[1].below_noise
    assert " costs more than " in ranking.places[1].reason
    assert ranking.places[1].reason.endswith("(not significant)")


def test_strategies_with_equal_results_are_tied() -> None:
    [ranking] = rank(
        comparison({name: [report(name, 1.0)] * 9 for name in ("none", "gc_b", "gc_a")})
    )

    assert [place.strategy for place in ranking.places] == ["gc_a", "gc_b"]
    assert ranking.places[1].below_noise
    assert ranking.places[1].reason.endswith("tied with gc_a")
    assert ranking.note.startswith("all requests fit without collection")


def test_differences_on_five_transcripts_are_not_significant() -> None:
    [ranking] = rank(
        comparison({n: [report(n, c)] * 5 for n, c in (("none", 3.0), ("a", 1.0), ("b", 2.0))})
    )

    assert ranking.places[1].below_noise


def test_only_transcripts_replayed_with_all_strategies_count() -> None:
    failed = [None, report("a", 2.0)]
    complete = [report("b", 0.1), report("b", 2.5)]

    assert places({"failed_once": failed, "complete": complete}) == ["failed_once", "complete"]


def test_note_mentions_that_no_transcript_was_replayed_with_all_strategies() -> None:
    [ranking] = rank(comparison({"none": [report("none", 1.0)], "a": [None]}))

    assert ranking.note.startswith("no transcript could be replayed")
    assert rank(Comparison(["none"], [8_000]))[0].places == []


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_significance_is_deterministic(differences: list[float]) -> None:
    verdict = is_significant(differences)

    assert verdict == is_significant(differences)
    if all(difference > 0.1 for difference in differences):
        assert verdict is (len(differences) >= 6)


@pytest.mark.parametrize("sign", [1, -1])
def test_consistent_differences_are_significant(sign: int) -> None:
    chance = random.Random(2)

    assert is_significant([sign * (0.5 + chance.random()) for _ in range(12)])
    assert not is_significant([chance.random() - 0.5 for _ in range(12)])
