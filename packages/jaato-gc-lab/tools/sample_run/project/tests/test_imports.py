from datetime import datetime

from harbour.imports import (
    import_manifest,
    parse_header,
    parse_manifest,
    parse_manifest_row,
    parse_number,
)
from harbour.storage import Store

from tests.samples import HEADER, error_of, row

COLUMNS = HEADER.split(";")


def test_header_may_be_in_any_case() -> None:
    assert parse_header(HEADER.upper()) == COLUMNS


def test_missing_columns_are_named() -> None:
    message = error_of(parse_header, HEADER.replace("berth;", ""))

    assert message == "missing columns: berth"


def test_numbers_have_a_comma_or_a_point() -> None:
    assert parse_number(" 132,5") == parse_number("132.5") == 132.5


def test_row_becomes_a_call() -> None:
    text = row("MNF-7", "15.01.2026 12:00", "15.01.2026 20:00")
    call = parse_manifest_row(dict(zip(COLUMNS, text.split(";"), strict=True)))

    assert call.manifest == "MNF-7"
    assert call.vessel.name == "Aurelia Boreas"
    assert call.berth == "Q7-North"
    assert call.stay.total_seconds() == 8 * 3600


def test_invalid_rows_are_rejected_with_their_numbers() -> None:
    lines = [
        HEADER,
        row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00"),
        row("MNF-2", "15.01.2026", "15.01.2026 20:00"),
        row("MNF-3", "15.01.2026 12:00", "15.01.2026 11:00"),
    ]
    calls, rejected = parse_manifest(lines)

    assert [call.manifest for call in calls] == ["MNF-1"]
    assert [number for number, _ in rejected] == [3, 4]


def test_calls_of_the_coming_day_are_stored() -> None:
    store = Store()
    lines = [HEADER, row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00")]
    result = import_manifest(lines, store, datetime(2026, 1, 15, 3))

    assert result.summary() == "stored=1 rejected=0 expired=0"
    assert list(store.load()) == ["MNF-1"]


def test_calls_of_yesterday_are_expired() -> None:
    store = Store()
    lines = [HEADER, row("MNF-1", "14.01.2026 12:00", "14.01.2026 20:00")]
    result = import_manifest(lines, store, datetime(2026, 1, 15, 3))

    assert result.summary() == "stored=0 rejected=0 expired=1"
    assert store.writes == 0
