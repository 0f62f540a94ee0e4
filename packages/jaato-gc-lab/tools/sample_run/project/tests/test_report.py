from datetime import datetime

from harbour.report import cells, daily_report, table, total_dues
from harbour.storage import Store

from tests.samples import KITTIWAKE, call


def test_table_has_aligned_columns() -> None:
    assert table([("a", "bb"), ("ccc", "d")]) == "a    bb\nccc  d"


def test_stay_is_shown_in_hours_and_minutes() -> None:
    assert "10:15" in cells(call(hours=10.25))


def test_report_lists_the_calls_of_the_day() -> None:
    store = Store()
    store.save(call("MNF-1", vessel=KITTIWAKE))
    store.save(call("MNF-2", datetime(2026, 2, 12, 8)))
    report = daily_report(store, datetime(2026, 2, 10))

    assert "MNF-1" in report
    assert "MNF-2" not in report
    assert "1 calls" in report


def test_report_names_conflicts() -> None:
    store = Store()
    store.save(call("MNF-1"))
    store.save(call("MNF-2"))

    assert "- Aurelia Boreas and Aurelia Boreas at Q7-North" in daily_report(
        store, datetime(2026, 2, 10)
    )


def test_dues_are_added_up() -> None:
    one = total_dues([call()])

    assert total_dues([call(), call("MNF-2")]) == 2 * one
