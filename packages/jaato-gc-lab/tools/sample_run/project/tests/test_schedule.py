from datetime import datetime, timedelta

from harbour.schedule import BERTHS, find_conflicts, free_berths, overlaps, resolve

from tests.samples import KITTIWAKE, call

MORNING = datetime(2026, 2, 10, 8)


def test_calls_at_different_times_do_not_overlap() -> None:
    later = call("MNF-2", MORNING + timedelta(hours=11))

    assert not overlaps(call("MNF-1", MORNING), later)


def test_turnaround_counts_as_overlap() -> None:
    later = call("MNF-2", MORNING + timedelta(hours=10, minutes=15))

    assert overlaps(call("MNF-1", MORNING), later)


def test_conflicts_are_at_the_same_berth() -> None:
    calls = [
        call("MNF-1", MORNING),
        call("MNF-2", MORNING),
        call("MNF-3", MORNING, berth="Q8-North"),
    ]
    [conflict] = find_conflicts(calls)

    assert str(conflict) == "Aurelia Boreas and Aurelia Boreas at Q7-North"
    assert conflict.begins == MORNING


def test_small_vessels_get_small_berths() -> None:
    assert free_berths(call(vessel=KITTIWAKE), [])[0] == "Q1-South"


def test_dangerous_goods_get_berths_that_allow_them() -> None:
    allowed = {berth.name for berth in BERTHS if berth.allows_dangerous}

    assert set(free_berths(call(cargo="DGR"), [])) == allowed


def test_second_call_is_moved_to_a_free_berth() -> None:
    plan, left = resolve([call("MNF-1", MORNING), call("MNF-2", MORNING)])

    assert [each.berth for each in plan] == ["Q7-North", "Q3-East"]
    assert plan[1].remarks == ["moved from Q7-North"]
    assert left == []
