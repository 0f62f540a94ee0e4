"""Times of segments: local times, time zones, and times in the future."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from jaato_gc_marksweep import ContextSegment, GCEngine

NOW = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
TOKYO = timezone(timedelta(hours=9))


@pytest.fixture(params=["America/New_York", "Asia/Tokyo"])
def _local_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets the time zone of this process: one west of Greenwich, one east of it."""
    if not hasattr(time, "tzset"):
        pytest.skip("the time zone of a process can't be set on this platform")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def hours_ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def local(moment: datetime) -> datetime:
    """Returns a time as ``datetime.now()`` does: local, without a time zone."""
    return moment.astimezone().replace(tzinfo=None)


def segment(segment_id: str, at: datetime, type: str = "note") -> ContextSegment:
    return ContextSegment(segment_id, "", type, created_at=at, tokens=10)


def engine(now: datetime = NOW) -> GCEngine:
    return GCEngine(now=lambda: now)


def ages(*times: datetime, now: datetime = NOW) -> list[float]:
    segments = [segment(str(number), each) for number, each in enumerate(times)]
    found = engine(now).analyze_pruning_candidates(segments, set())
    by_id = {each.segment_id: each.age_hours for each in found}
    return [by_id[str(number)] for number in range(len(times))]


# --- local times ---


@pytest.mark.usefixtures("_local_zone")
def test_a_time_without_a_time_zone_is_local() -> None:
    naive = local(hours_ago(30))

    assert ages(naive, hours_ago(30), hours_ago(30).astimezone(TOKYO)) == [30, 30, 30]
    assert ages(hours_ago(30), naive, now=local(NOW)) == [30, 30]


@pytest.mark.usefixtures("_local_zone")
def test_scores_of_local_times_and_of_times_with_a_zone_are_equal() -> None:
    scores = {
        engine().score_segment(segment("s", touched), now)
        for touched in (hours_ago(30), local(hours_ago(30)), hours_ago(30).astimezone(TOKYO))
        for now in (NOW, local(NOW), NOW.astimezone(TOKYO))
    }

    assert len(scores) == 1


@pytest.mark.usefixtures("_local_zone")
def test_recent_messages_and_decisions_are_found_by_local_times_too() -> None:
    segments = [
        segment("aware", hours_ago(2).astimezone(TOKYO), "message"),
        segment("naive", local(hours_ago(1)), "message"),
        segment("decided", local(hours_ago(0.5)), "decision"),
        segment("decided before", local(hours_ago(1.5)), "decision"),
    ]
    gc = GCEngine(recent_messages_count=1, now=lambda: NOW)

    assert gc.compute_roots(segments) == {"naive", "decided"}


@pytest.mark.usefixtures("_local_zone")
@pytest.mark.parametrize("first", [datetime.min, datetime.min.replace(tzinfo=TOKYO)])
def test_the_first_possible_time_is_older_than_all_others(first: datetime) -> None:
    gc = GCEngine(recent_messages_count=1, now=lambda: NOW)
    segments = [segment("first", first, "message"), segment("later", hours_ago(1), "message")]

    assert gc.compute_roots(segments) == {"later"}
    assert gc.analyze_pruning_candidates(segments, set())[0].segment_id == "first"


def test_ages_are_correct_across_a_change_to_daylight_saving_time() -> None:
    try:
        berlin = ZoneInfo("Europe/Berlin")
    except KeyError:
        pytest.skip("this machine has no time zone data: install the tzdata package")
    touched = datetime(2025, 3, 30, 1, 30, tzinfo=berlin)
    # One hour later: the clock skipped 02:00 to 03:00.
    now = datetime(2025, 3, 30, 3, 30, tzinfo=berlin)

    assert ages(touched, now=now) == [1]
    one_hour = 0.4 / 24 + 0.3 * 0.8 + 0.2 + 0.1 * 0.3
    assert engine().score_segment(segment("s", touched), now) == one_hour


# --- times in the future ---


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_time_in_the_future_counts_as_now() -> None:
    now, later = segment("now", NOW), segment("later", hours_ago(-48))

    assert engine().score_segment(later, NOW) == engine().score_segment(now, NOW)
    assert ages(hours_ago(-48)) == [0]


def test_a_time_in_the_future_is_reported_once_per_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    segments = [segment(f"s{number}", hours_ago(-2)) for number in range(100)]
    gc = engine()

    for _ in range(3):
        gc.analyze_pruning_candidates(segments, gc.compute_roots(segments))

    [warning] = warnings_of(caplog)
    assert warning == (
        "segment 's0': 2025-06-01 14:00:00+00:00 is 2:00:00 in the future and counts as now. A "
        "time without a time zone is local time: use datetime.now() or datetime.now(UTC), not "
        "datetime.utcnow(). Other segments with such times are not reported."
    )
    engine().analyze_pruning_candidates(segments, set())
    assert len(warnings_of(caplog)) == 2


@pytest.mark.parametrize("type", ["message", "decision"])
def test_a_creation_in_the_future_is_reported_by_compute_roots(
    type: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine().compute_roots([segment("s", hours_ago(-2), type)])

    assert len(warnings_of(caplog)) == 1


@pytest.mark.parametrize("seconds", [-60, -1, 0, 1, 10**9])
def test_a_time_at_most_a_minute_in_the_future_is_not_reported(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    segments = [segment("s", NOW - timedelta(seconds=seconds), "message")]

    engine().analyze_pruning_candidates(segments, engine().compute_roots(segments) - {"s"})

    assert warnings_of(caplog) == []
