"""What a session believes, against providers whose true figures are known."""

import math
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato_gc import Confidence, GCConfig, GCSession, Message, Role, UndoError
from jaato_gc.budget.calibration import (
    KEPT_REPORTS,
    LEAST_DIFFERENCE,
    Report,
    correction_of,
    with_report,
)
from jaato_gc_testing import OldestFirst, new_session

WINDOW = 400_000
LEAST_TURN = 2_000
"""Turns that are large enough to tell the two parts of the correction apart."""
BOUND = WINDOW // 1_000
"""The tokens that a session may be wrong by. Ratios are multiples of 1/1024, and reports are whole
numbers: two whose sizes differ by ``LEAST_TURN`` say a ratio as exactly as one in so many."""


class WordCounter:
    """Counts words, with a tolerance like that of an estimate."""

    name = "words"
    confidence = Confidence.ESTIMATED
    tolerance = 0.05

    def count_text(self, text: str) -> int:
        return len(text.split())


class Truth:
    """A provider that counts a multiple of the words, and something that was not booked.

    Args:
        ratio: Its tokens per counted token.
        constant: The tokens of what was not booked.
    """

    def __init__(self, ratio: float, constant: int) -> None:
        self.ratio, self.constant = ratio, constant
        self.session = new_session(
            OldestFirst(),
            GCConfig(auto_trigger=False, preserve_recent_turns=1),
            context_limit=WINDOW,
            counter=WordCounter(),
        )

    @property
    def tokens(self) -> int:
        """The true size of the next request."""
        return math.ceil(self.ratio * self.session.budget.counted_tokens()) + self.constant

    @property
    def error(self) -> int:
        """How much the session believes too much, or too little."""
        return self.session.budget.total_tokens() - self.tokens

    def say(self, words: int) -> None:
        """Appends a turn."""
        self.session.append(Message.from_text(Role.USER, "And now?"))
        self.session.append(Message.from_text(Role.MODEL, "word " * words))

    def report(self) -> None:
        """Sends a request, and reports its true size."""
        self.session.before_send()
        self.session.report_usage(self.tokens)
        assert self.error == 0


turns = st.lists(st.integers(LEAST_TURN, 30_000), min_size=3, max_size=3)


@given(ratio=st.floats(0.6, 1.4), constant=st.integers(0, 60_000), turns=turns, more=turns)
def test_three_reports_of_different_sizes_tell_ratio_and_constant_apart(
    ratio: float, constant: int, turns: Sequence[int], more: Sequence[int]
) -> None:
    truth = Truth(ratio, constant)
    for words in turns:
        truth.say(words + truth.session.budget.counted_tokens() // 5)
        truth.report()

    for words in more:
        truth.say(words)
        assert abs(truth.error) <= BOUND
    truth.session.manual_gc(target_percent=1.0)
    assert truth.session.collection_count == 1
    assert abs(truth.error) <= BOUND
    truth.session.undo()
    assert abs(truth.error) <= BOUND


@given(
    ratio=st.floats(0.3, 2.0),
    constant=st.integers(0, 60_000),
    steps=st.lists(
        st.tuples(st.sampled_from(["say", "report", "collect", "undo"]), st.integers(1, 30_000)),
        max_size=8,
    ),
)
def test_no_total_is_negative_and_no_upper_bound_exceeds_what_is_there_by_more_than_the_tolerance(
    ratio: float, constant: int, steps: list[tuple[str, int]]
) -> None:
    truth = Truth(ratio, constant)
    session, budget = truth.session, truth.session.budget
    for step, words in steps:
        match step:
            case "say":
                truth.say(words)
            case "report" if session.history:
                session.before_send()
                session.report_usage(truth.tokens)
            case "collect":
                session.manual_gc(target_percent=1.0)
            case "undo":
                with suppress(UndoError):
                    session.undo()
        total, most = budget.total_tokens(), session._live.upper_bound()
        assert 0 <= budget.unbooked_tokens <= total
        assert 0.5 <= budget.ratio <= 1.5
        assert total <= most <= math.ceil(total * (1 + budget.counter.tolerance))
        restored = GCSession.restore(session.save(), counter=WordCounter(), strategy=OldestFirst())
        assert restored.get_context_usage()["total_tokens"] == total
        assert restored._live.samples == session._live.samples


def test_tools_that_were_not_booked_stay_whole_in_three_collections() -> None:
    truth = Truth(1.0, 40_000)
    for _ in range(3):
        for _ in range(4):
            truth.say(20_000)
            truth.report()
        truth.session.manual_gc(target_percent=15.0)
        assert truth.error == 0
    assert (truth.session.budget.ratio, truth.session.budget.unbooked_tokens) == (1.0, 40_000)
    assert truth.session.collection_count == 3


@pytest.mark.parametrize("reports", [1, 4])
def test_a_counter_that_counts_too_much_stays_corrected_in_three_collections(reports: int) -> None:
    truth = Truth(0.6, 0)
    for _ in range(3):
        for _ in range(4):
            truth.say(20_000)
        for _ in range(reports):
            truth.say(5_000)
            truth.report()
        before = truth.session.budget.total_tokens()
        truth.session.manual_gc(target_percent=5.0)
        assert truth.session.budget.total_tokens() < before / 2
        assert abs(truth.error) <= 0.002 * before


def test_figures_of_a_result_are_in_reported_tokens() -> None:
    truth = Truth(0.6, 0)
    for _ in range(10):
        truth.say(10_000)
    truth.report()
    target = int(WINDOW * 0.1)

    result = truth.session.manual_gc(target_percent=10.0)

    assert result.tokens_after <= target
    assert result.tokens_after == truth.session.budget.total_tokens()
    freed = sum(item.tokens_freed for item in result.removal_list)
    assert freed == pytest.approx(result.tokens_freed, abs=10)
    assert result.cache is not None
    sent = result.cache.prefix_tokens + result.cache.rewritten_tokens
    assert sent == pytest.approx(result.tokens_after, abs=100)
    # Not more went than was needed.
    assert result.tokens_after > target - 0.6 * 10_020


def test_a_request_is_made_to_fit_in_reported_tokens() -> None:
    truth = Truth(1.4, 30_000)
    for words in (20_000, 40_000, 60_000):
        truth.say(words)
        truth.report()
    truth.session.append(Message.from_text(Role.USER, "word " * 150_000))

    truth.session.before_send()

    assert truth.tokens <= WINDOW
    assert truth.session.get_gc_history()


def test_what_changes_beside_the_history_replaces_reports_that_contradict_it() -> None:
    reports: list[Report] = []
    for counted in (10_000, 20_000, 30_000):
        reports = with_report(reports, Report(counted, counted + 5_000))
    assert correction_of(reports) == (1.0, 5_000)

    reports = with_report(reports, Report(33_500, 80_000))  # other tools

    assert reports == [(33_500, 80_000)]
    assert correction_of(reports) == (1.0, 46_500)


@given(st.lists(st.tuples(st.integers(1, 500_000), st.floats(0.5, 3)), min_size=1, max_size=40))
def test_the_newest_report_is_met_exactly_and_few_are_kept(sizes: list[tuple[int, float]]) -> None:
    reports: list[Report] = []
    for counted, share in sizes:
        newest = Report(counted, math.ceil(counted * share))
        reports = with_report(reports, newest)
        ratio, unbooked = correction_of(reports)
        assert int(ratio * counted) + unbooked == newest.reported
        assert unbooked >= 0
        assert 0.5 <= ratio <= 1.5
        assert len(reports) <= KEPT_REPORTS
        assert all(abs(each.counted - counted) >= LEAST_DIFFERENCE for each in reports[:-1])
