"""Tests of the text chart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc_lab import ReplayedRequest, ReplayReport
from jaato_gc_lab._sawtooth import sawtooth


def report(*shares: float, limit: int = 1000) -> ReplayReport:
    requests = [
        ReplayedRequest(1, round(share * limit), {}, 0, 0, fits=share <= 1) for share in shares
    ]
    return ReplayReport("run", "gc_budget", limit, 80.0, 60.0, requests)


def test_each_row_is_a_fifth_of_the_window() -> None:
    assert sawtooth(report(0.2, 0.5, 1.0, 0.3), 30) == [
        "100% │  █",
        " 80% │  █",
        " 60% │ ▄█",
        " 40% │ ██▄",
        " 20% │████",
        "     └────",
        "      1  4",
    ]


def test_plain_chart_is_ascii() -> None:
    lines = sawtooth(report(0.2, 0.5, 1.2), 30, plain=True)

    assert lines[0] == "100% |  !"
    assert lines[2] == " 60% | :#"
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("count", [0, 1, 2, 66, 67, 1000])
@pytest.mark.parametrize("width", [1, 10, 72])
def test_chart_is_not_wider_than_its_width(count: int, width: int) -> None:
    lines = sawtooth(report(*([0.5] * count)), width)

    assert all(len(line) <= max(width, 7) for line in lines)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=300))
def test_chart_always_marks_requests_that_do_not_fit(shares: list[float]) -> None:
    top = sawtooth(report(*shares), 40)[0]

    assert ("!" in top) == any(share > 1 for share in shares)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300))
def test_chart_always_shows_the_largest_request(shares: list[float]) -> None:
    rows = sawtooth(report(*shares), 40)[:5]
    reached = next((5 - number for number, row in enumerate(rows) if row[6:].strip()), 0)

    assert abs(reached - max(shares) * 5) <= 1.1
