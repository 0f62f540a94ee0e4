"""Tests of the confidence intervals in the report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc_lab._intervals import MIN_RUNS, Bootstrap, wilson


def test_share_of_no_runs_out_of_many_has_an_interval_above_zero() -> None:
    interval = wilson(0, 30)

    assert interval is not None
    assert interval.low == 0
    assert 0.05 < interval.high < 0.15


@pytest.mark.parametrize(
    ("successes", "runs", "low", "high"),
    [(1, 10, 0.0179, 0.4042), (5, 10, 0.2366, 0.7634), (20, 40, 0.3520, 0.6480)],
)
def test_share_of_runs_has_the_wilson_score_interval(
    successes: int, runs: int, low: float, high: float
) -> None:
    assert wilson(successes, runs) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("runs", range(MIN_RUNS))
def test_few_runs_have_no_interval(runs: int) -> None:
    assert wilson(runs, runs) is None
    assert Bootstrap(runs).ratio([1.0] * runs, [2.0] * runs) is None


def test_runs_without_any_use_do_not_count_for_an_interval() -> None:
    assert Bootstrap(10).ratio([1.0] * 5 + [0.0] * 5, [2.0] * 5 + [0.0] * 5) is None


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=MIN_RUNS, max_size=30).map(
        lambda pairs: [(min(pair), max(pair)) for pair in pairs]
    )
)
def test_bootstrap_interval_lies_between_the_smallest_and_largest_ratio_of_a_run(
    pairs: list[tuple[int, int]],
) -> None:
    parts, wholes = zip(*pairs, strict=True)

    interval = Bootstrap(len(pairs)).ratio(parts, wholes)

    assert interval is not None
    ratios = [part / whole for part, whole in pairs]
    assert min(ratios) - 1e-9 <= interval.low <= interval.high <= max(ratios) + 1e-9


def test_equal_runs_give_an_interval_without_width() -> None:
    assert Bootstrap(8).ratio([1.0] * 8, [4.0] * 8) == (0.25, 0.25)


def test_intervals_are_the_same_in_every_run_of_the_program() -> None:
    parts, wholes = [0, 3, 1, 0, 9, 2, 4], [10] * 7

    assert Bootstrap(7).ratio(parts, wholes) == Bootstrap(7).ratio(parts, wholes)
