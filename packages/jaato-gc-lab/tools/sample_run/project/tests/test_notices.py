from datetime import datetime

from harbour.notices import FOOTER, line_for, notices_for

from tests.samples import AURELIA, KITTIWAKE, call


def test_line_shows_local_time() -> None:
    summer = call(arrival=datetime(2026, 7, 15, 10))

    assert line_for(summer).startswith("15.07.2026 12:00, Aurelia Boreas, Q7-North")


def test_large_vessels_need_a_pilot() -> None:
    assert "pilot required" in line_for(call(vessel=AURELIA))
    assert "pilot required" not in line_for(call(vessel=KITTIWAKE))


def test_every_agent_gets_one_notice() -> None:
    notices = notices_for([call("MNF-1"), call("MNF-2"), call("MNF-3", vessel=KITTIWAKE)])

    assert [notice.recipient for notice in notices] == ["Brant & Sons", "Nordlys Shipping"]
    assert [notice.subject for notice in notices] == ["1 call", "2 calls"]
    assert notices[0].body.endswith(FOOTER)
