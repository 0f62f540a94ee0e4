from datetime import datetime, timedelta

from harbour import clock


def test_summer_time_begins_on_the_last_sunday_in_march() -> None:
    assert clock.last_sunday(2026, 3) == datetime(2026, 3, 29, 1)
    assert clock.last_sunday(2027, 3) == datetime(2027, 3, 28, 1)


def test_summer_time_ends_on_the_last_sunday_in_october() -> None:
    assert clock.last_sunday(2026, 10) == datetime(2026, 10, 25, 1)


def test_offset_changes_at_one_o_clock_utc() -> None:
    change = datetime(2026, 3, 29, 1)

    assert clock.offset_at(change - timedelta(seconds=1)) == clock.WINTER_OFFSET
    assert clock.offset_at(change) == clock.SUMMER_OFFSET


def test_winter_time_is_one_hour_ahead_of_utc() -> None:
    assert clock.to_utc(datetime(2026, 1, 15, 12)) == datetime(2026, 1, 15, 11)


def test_summer_time_is_two_hours_ahead_of_utc() -> None:
    assert clock.to_utc(datetime(2026, 7, 15, 12)) == datetime(2026, 7, 15, 10)


def test_conversion_to_utc_and_back_returns_the_same_time() -> None:
    for month in range(1, 13):
        local = datetime(2026, month, 14, 17, 45)
        assert clock.to_local(clock.to_utc(local)) == local


def test_times_are_read_as_manifests_write_them() -> None:
    assert clock.parse_time(" 29.03.2026 02:30 ") == datetime(2026, 3, 29, 2, 30)


def test_late_calls_are_expected_for_a_while() -> None:
    arrival = datetime(2026, 1, 15, 12)

    assert not clock.is_expired(arrival, arrival + timedelta(minutes=clock.GRACE_MINUTES))
    assert clock.is_expired(arrival, arrival + timedelta(minutes=clock.GRACE_MINUTES + 1))
