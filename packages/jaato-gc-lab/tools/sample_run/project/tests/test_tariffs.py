from datetime import datetime
from decimal import Decimal

from harbour.tariffs import billed_hours, invoice_for, is_night, is_summer

from tests.samples import KITTIWAKE, call


def test_short_stays_are_billed_for_six_hours() -> None:
    assert billed_hours(call(hours=1)) == 6


def test_started_hours_are_billed() -> None:
    assert billed_hours(call(hours=10.25)) == 11


def test_night_is_local() -> None:
    assert is_night(datetime(2026, 7, 15, 3, 30))
    assert not is_night(datetime(2026, 7, 15, 4, 30))
    assert is_night(datetime(2026, 7, 15, 20))


def test_summer_season_is_the_time_of_summer_time() -> None:
    assert is_summer(datetime(2026, 7, 15, 12))
    assert not is_summer(datetime(2026, 1, 15, 12))


def test_small_vessel_by_day_in_winter_pays_the_berth_only() -> None:
    invoice = invoice_for(call(vessel=KITTIWAKE, cargo="GEN", hours=24))

    assert [line.text for line in invoice.lines] == ["berth Q7-North, 24 h"]
    assert invoice.total == Decimal("268.80")


def test_large_vessel_pays_pilotage() -> None:
    assert "pilotage" in [line.text for line in invoice_for(call()).lines]
