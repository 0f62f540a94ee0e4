from datetime import datetime, timedelta

from harbour.storage import Store

from tests.samples import KITTIWAKE, call, error_of


def test_stored_calls_are_loaded_unchanged() -> None:
    store = Store()
    store.save(call("MNF-1"))

    assert store.load() == {"MNF-1": call("MNF-1")}


def test_newest_version_of_a_call_counts() -> None:
    store = Store()
    store.save(call("MNF-1"))
    store.save(call("MNF-1", berth="Q8-North"))

    assert store.load()["MNF-1"].berth == "Q8-North"


def test_compacting_removes_replaced_versions() -> None:
    store = Store()
    for berth in ("Q7-North", "Q8-North", "Q5-East"):
        store.save(call("MNF-1", berth=berth))
    store.save(call("MNF-2", vessel=KITTIWAKE))

    assert store.compact() == 2
    assert store.load()["MNF-1"].berth == "Q5-East"


def test_calls_are_found_by_time() -> None:
    store = Store()
    begin = datetime(2026, 2, 10, 8)
    for number in range(4):
        store.save(call(f"MNF-{number}", begin + timedelta(days=number)))

    found = store.between(begin + timedelta(days=1), begin + timedelta(days=2))
    assert [each.manifest for each in found] == ["MNF-1"]


def test_damaged_lines_are_named() -> None:
    assert error_of(Store(['{"version": 3}']).load).startswith("line 1: ")
