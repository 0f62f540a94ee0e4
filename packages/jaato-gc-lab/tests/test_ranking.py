"""Places, reasons, and whether they are more than chance."""

import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc_lab import Cell, CellResult, Comparison, ReplayReport, Request, rank
from jaato_gc_lab._ranking import is_beyond_noise


def report(
    strategy: str, cost: float, *, overflows: int = 0, violations: int = 0, lookups: float = 0.0
) -> ReplayReport:
    requests = [Request(1, 100, {}, 0, 10, fits=number >= overflows) for number in range(10)]
    return ReplayReport(
        "run", strategy, 8_000, 80, 60, requests, overflows=overflows,
        violations=["bad"] * violations, cost=cost, lookup_cost=lookups, names_used=10,
    )  # fmt: skip


def comparison(reports: Mapping[str, Sequence[ReplayReport | None]]) -> Comparison:
    """A comparison of reports by strategy, one for each transcript."""
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


def test_violations_come_before_overflows_and_overflows_before_money() -> None:
    found = places(
        {
            "cheap_but_invalid": [report("a", 0.1, violations=1)] * 3,
            "cheap_but_overflows": [report("b", 0.2, overflows=1)] * 3,
            "dear": [report("c", 1.5)] * 3,
            "better": [report("d", 1.0)] * 3,
        }
    )

    assert found == ["better", "dear", "cheap_but_overflows", "cheap_but_invalid"]


def test_what_was_lost_counts_in_money() -> None:
    found = places(
        {"forgetful": [report("a", 1.0, lookups=0.5)], "mindful": [report("b", 1.2, lookups=0.1)]}
    )

    assert found == ["mindful", "forgetful"]


def test_reasons_are_in_plain_words() -> None:
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
    assert good.reason.startswith(
        "every request fits; 10.45 USD (48% less than collecting nothing)"
    )
    assert "no name used later was gone" in good.reason
    assert "look up" not in good.reason
    assert worse.reason.startswith("10 of 100 requests do not fit")
    assert worse.reason.endswith("behind good by overflows")
    assert not worse.below_noise
    assert ranking.note == (
        "without collecting, 30 of 100 requests would not have fit, and all of them together would "
        "have cost 20.00 USD"
    )


def test_differences_below_noise_are_said_to_be() -> None:
    chance = random.Random(1)
    first = [report("a", 1.0 + chance.random()) for _ in range(20)]
    second = [report("b", 1.0 + chance.random()) for _ in range(20)]
    [ranking] = rank(comparison({"none": [report("none", 2.0)] * 20, "a": first, "b": second}))

    assert ranking.places[1].below_noise
    assert ranking.places[1].reason.endswith("the difference is below noise")


def test_the_same_is_no_different() -> None:
    [ranking] = rank(
        comparison({name: [report(name, 1.0)] * 9 for name in ("none", "gc_b", "gc_a")})
    )

    assert [place.strategy for place in ranking.places] == ["gc_a", "gc_b"]
    assert ranking.places[1].below_noise
    assert ranking.places[1].reason.endswith("no different from gc_a")
    assert ranking.note.startswith("everything fits without collecting")


def test_few_transcripts_can_not_tell() -> None:
    [ranking] = rank(
        comparison({n: [report(n, c)] * 5 for n, c in (("none", 3.0), ("a", 1.0), ("b", 2.0))})
    )

    assert ranking.places[1].below_noise


def test_only_transcripts_that_all_could_be_replayed_on_decide() -> None:
    failed = [None, report("a", 2.0)]
    whole = [report("b", 0.1), report("b", 2.5)]

    assert places({"failed_once": failed, "whole": whole}) == ["failed_once", "whole"]


def test_with_no_transcript_in_common_it_says_so() -> None:
    [ranking] = rank(comparison({"none": [report("none", 1.0)], "a": [None]}))

    assert ranking.note.startswith("there is no transcript")
    assert rank(Comparison(["none"], [8_000]))[0].places == []


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_the_verdict_is_the_same_every_time_and_either_way(differences: list[float]) -> None:
    verdict = is_beyond_noise(differences)

    assert verdict == is_beyond_noise(differences)
    if all(difference > 0.1 for difference in differences):
        assert verdict is (len(differences) >= 6)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_clear_difference_is_no_noise(sign: int) -> None:
    chance = random.Random(2)

    assert is_beyond_noise([sign * (0.5 + chance.random()) for _ in range(12)])
    assert not is_beyond_noise([chance.random() - 0.5 for _ in range(12)])
