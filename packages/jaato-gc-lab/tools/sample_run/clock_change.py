"""The first two turns: a bug of the clock change, and two decisions that matter until the end."""

# ruff: noqa: E501 (quoted code keeps its lines)

from sample_run.transcript import Transcript

CLOCK = "src/harbour/clock.py"
IMPORTS = "src/harbour/imports.py"
STORAGE = "src/harbour/storage.py"
TEST_CLOCK = "tests/test_clock.py"
TEST_IMPORTS = "tests/test_imports.py"
SAMPLES = "tests/samples.py"

NIGHT_LOG = """\
2026-03-28T03:00:01Z INFO harbour.import started, inbox=/srv/harbour/inbox
2026-03-28T03:00:01Z INFO harbour.import nordlys-20260328.csv: stored=19 rejected=0 expired=0
2026-03-28T03:00:02Z INFO harbour.import brant-20260328.csv: stored=11 rejected=0 expired=0
2026-03-28T03:00:02Z INFO harbour.import finished, 30 calls in 2 files
2026-03-29T03:00:01Z INFO harbour.import started, inbox=/srv/harbour/inbox
2026-03-29T03:00:01Z INFO harbour.import nordlys-20260329.csv: stored=17 rejected=0 expired=2
2026-03-29T03:00:01Z DEBUG harbour.import expired MNF-20260329-0417 Aurelia Boreas Q7-North
2026-03-29T03:00:01Z DEBUG harbour.import expired MNF-20260329-0418 Sula Bassana Q3-East
2026-03-29T03:00:02Z INFO harbour.import brant-20260329.csv: stored=9 rejected=1 expired=1
2026-03-29T03:00:02Z DEBUG harbour.import brant-20260329.csv:6: invalid time '29.03.26 7:15'
2026-03-29T03:00:02Z DEBUG harbour.import expired MNF-20260329-0502 Kittiwake Q1-South
2026-03-29T03:00:02Z INFO harbour.import finished, 26 calls in 3 files"""


def find_the_bug(run: Transcript) -> None:
    """Adds the first turn: a wrong guess, a test that refutes it, and the fix."""
    run.user(
        "Since the clocks went forward, the nightly import drops vessel calls (ticket HB-4127). The "
        "office noticed it with manifest MNF-20260329-0417: the Aurelia Boreas was due at berth "
        "Q7-North at 05:20 on 29 March and is not in the plan. Find out why and fix it. The log is "
        "/var/log/harbour/import.log."
    )
    run.run("I'll look around first.", "git ls-files", "\n".join(run.workspace.files))
    run.run("Now the log of that night.", "tail -n 12 /var/log/harbour/import.log", NIGHT_LOG)
    run.read("Three calls expired that night and none the night before.", IMPORTS, CLOCK)
    run.tests("Do the tests know about this?")
    run.read("All pass, so this case is not tested.", TEST_IMPORTS, SAMPLES)
    run.edit(
        "A test with the manifest from the ticket.",
        TEST_IMPORTS,
        "def test_calls_of_yesterday_are_expired() -> None:\n",
        "def test_calls_of_the_next_hour_are_stored_after_the_clock_change() -> None:\n"
        "    store = Store()\n"
        '    lines = [HEADER, row("MNF-20260329-0417", "29.03.2026 05:20", "29.03.2026 14:00")]\n'
        "    result = import_manifest(lines, store, datetime(2026, 3, 29, 3))\n\n"
        '    assert result.summary() == "stored=1 rejected=0 expired=0"\n\n\n'
        "def test_calls_of_yesterday_are_expired() -> None:\n",
    )
    run.tests("It should fail.", "imports")
    run.read(
        "It does. What do the documentation and the configuration say about times?",
        "docs/times.md",
        "deploy/import.toml",
    )
    run.edit(
        "The grace period may be too short in summer, when local time is two hours ahead.",
        CLOCK,
        "GRACE_MINUTES = 90\n",
        "GRACE_MINUTES = 150\n",
    )
    run.tests("", "imports", "clock")
    run.edit(
        "That passes, but it only shifts the limit. A call that is 80 minutes late has to be "
        "treated alike in winter and in summer.",
        TEST_IMPORTS,
        "def test_calls_of_yesterday_are_expired() -> None:\n",
        "def test_late_calls_are_treated_alike_in_winter_and_in_summer() -> None:\n"
        "    for month in (1, 7):\n"
        "        arrival = clock.to_local(datetime(2026, month, 15, 3))\n"
        '        text = f"{arrival:%d.%m.%Y %H:%M}"\n'
        '        lines = [HEADER, row("MNF-1", text, f"{arrival:%d.%m.%Y} 20:00")]\n'
        "        for minutes, summary in (\n"
        '            (80, "stored=1 rejected=0 expired=0"),\n'
        '            (100, "stored=0 rejected=0 expired=1"),\n'
        "        ):\n"
        "            now = datetime(2026, month, 15, 3) + timedelta(minutes=minutes)\n"
        "            assert import_manifest(lines, Store(), now).summary() == summary\n\n\n"
        "def test_calls_of_yesterday_are_expired() -> None:\n",
        "from datetime import datetime\n\nfrom harbour.imports import (\n",
        "from datetime import datetime, timedelta\n\nfrom harbour import clock\n"
        "from harbour.imports import (\n",
    )
    run.tests("", "imports")
    run.read("So the grace period is not the cause. Once more from the top.", CLOCK)
    run.edit(
        "`parse_manifest_row` converts arrivals to UTC, but `import_manifest` compares them with "
        "`local_now`. In winter the grace period hides the difference of one hour, in summer it "
        "can't hide two. First, the old grace period again:",
        CLOCK,
        "GRACE_MINUTES = 150\n",
        "GRACE_MINUTES = 90\n",
    )
    run.edit(
        "And the comparison in UTC:",
        IMPORTS,
        "    now = clock.local_now(utc_now)\n    for call in calls:\n"
        "        if clock.is_expired(call.arrival, now):\n",
        "    for call in calls:\n        if clock.is_expired(call.arrival, utc_now):\n",
    )
    run.tests("", "imports", "clock")
    run.search("Does anything else use `local_now`?", "local_now")
    run.edit(
        "No, so it goes: it invites the same mistake.",
        CLOCK,
        "def local_now(utc_now: datetime) -> datetime:\n"
        '    """Returns the local time at a moment in UTC, as the clock in the office shows it."""\n'
        "    return to_local(utc_now)\n\n\n",
        "",
    )
    run.tests("")
    run.commit("", "HB-4127: compare arrivals in UTC")
    run.answer(
        "`import_manifest` compared arrivals in UTC with local time. In winter the difference of "
        "one hour stayed below the 90 minutes of grace; since 29 March it is two hours, so calls "
        "that were due within half an hour counted as expired, MNF-20260329-0417 among them. It "
        "compares in UTC now. Two new tests cover both seasons, and all tests pass."
    )


def make_times_aware(run: Transcript) -> None:
    """Adds the second turn: the decisions, and a change with many failing tests."""
    run.user(
        "Good. Two things that were decided yesterday, please keep to them from now on. First: "
        "timestamps are stored in UTC, everywhere, with a Z at the end; local time is only for "
        "people. That settles HB-3310. Second: the name parse_manifest_row must not change, and "
        "neither must its argument. The nightly job of the customs team imports it from "
        "harbour.imports, and they deploy without us.\n\nNow make all times in the code aware of "
        "their zone. HB-4127 could only happen because the datetimes are naive."
    )
    run.read("", CLOCK, STORAGE, "src/harbour/vessels.py")
    run.search("Where are times made?", "datetime(")
    run.read(
        "And where are they compared or shown?",
        "src/harbour/schedule.py",
        "src/harbour/tariffs.py",
        "src/harbour/report.py",
        "src/harbour/notices.py",
    )
    run.edit(
        "The clock first.",
        CLOCK,
        "from datetime import datetime, timedelta\n",
        "from datetime import UTC, datetime, timedelta\n",
        "datetime(year, month, 31, 1)\n",
        "datetime(year, month, 31, 1, tzinfo=UTC)\n",
        "    guess = local - SUMMER_OFFSET\n"
        "    if offset_at(guess) == SUMMER_OFFSET:\n"
        "        return guess\n"
        "    return local - WINTER_OFFSET\n",
        "    as_utc = local.replace(tzinfo=UTC)\n"
        "    guess = as_utc - SUMMER_OFFSET\n"
        "    return guess if offset_at(guess) == SUMMER_OFFSET else as_utc - WINTER_OFFSET\n",
    )
    run.edit(
        "Local times stay naive: they are for people, and must not be compared with stored ones.",
        CLOCK,
        '    """Converts UTC to local time."""\n    return moment + offset_at(moment)\n',
        '    """Converts UTC to local time, which is naive: it is for people only."""\n'
        "    return (moment + offset_at(moment)).replace(tzinfo=None)\n",
    )
    run.tests("Now the tests show what else is naive.")
    run.edit(
        "The store: a Z at the end, and a new version. Version 3 has UTC without a Z.",
        STORAGE,
        'VERSION = 3\nTIME_FORMAT = "%Y-%m-%dT%H:%M:%S"\n',
        'VERSION = 4\nTIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"\n'
        '"""Times are stored in UTC. Version 3 had no Z at the end."""\n',
        '        datetime.strptime(record["arrival"], TIME_FORMAT),\n'
        '        datetime.strptime(record["departure"], TIME_FORMAT),\n',
        '        stored_time(record["arrival"]),\n        stored_time(record["departure"]),\n',
        "def decode(record: dict[str, Any]) -> Call:\n",
        "def stored_time(text: str) -> datetime:\n"
        '    """Returns a stored time, which is in UTC with or without a Z."""\n'
        '    return datetime.strptime(text.rstrip("Z") + "Z", TIME_FORMAT).replace(tzinfo=UTC)\n\n\n'
        "def decode(record: dict[str, Any]) -> Call:\n",
        "from datetime import datetime\n",
        "from datetime import UTC, datetime\n",
    )
    run.edit(
        "The samples of the tests, with a helper for moments in UTC.",
        SAMPLES,
        "from datetime import datetime, timedelta\n",
        "from datetime import UTC, datetime, timedelta\n",
        "def row(manifest: str,",
        "def utc(*parts: int) -> datetime:\n"
        '    """Returns a moment in UTC: ``utc(2026, 3, 29, 1)``."""\n'
        "    year, month, day, *rest = parts\n"
        "    return datetime(year, month, day, *rest, tzinfo=UTC)\n\n\n"
        "def row(manifest: str,",
        "    arrival: datetime = datetime(2026, 2, 10, 8),\n",
        "    arrival: datetime = utc(2026, 2, 10, 8),\n",
    )
    run.read("", TEST_CLOCK)
    run.edit(
        "",
        TEST_CLOCK,
        "import datetime, timedelta\n\nfrom harbour import clock\n",
        "import datetime, timedelta\n\nfrom harbour import clock\nfrom tests.samples import utc\n",
        "    assert clock.last_sunday(2026, 3) == datetime(2026, 3, 29, 1)\n"
        "    assert clock.last_sunday(2027, 3) == datetime(2027, 3, 28, 1)\n",
        "    assert clock.last_sunday(2026, 3) == utc(2026, 3, 29, 1)\n"
        "    assert clock.last_sunday(2027, 3) == utc(2027, 3, 28, 1)\n",
        "last_sunday(2026, 10) == datetime(2026, 10, 25, 1)",
        "last_sunday(2026, 10) == utc(2026, 10, 25, 1)",
        "    change = datetime(2026, 3, 29, 1)\n",
        "    change = utc(2026, 3, 29, 1)\n",
        "== datetime(2026, 1, 15, 11)",
        "== utc(2026, 1, 15, 11)",
        "== datetime(2026, 7, 15, 10)",
        "== utc(2026, 7, 15, 10)",
    )
    run.tests("", "clock", "storage")
    run.read("The other tests.", TEST_IMPORTS, "tests/test_schedule.py")
    run.edit(
        "",
        TEST_IMPORTS,
        'row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00")]\n'
        "    result = import_manifest(lines, store, datetime(2026, 1, 15, 3))",
        'row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00")]\n'
        "    result = import_manifest(lines, store, utc(2026, 1, 15, 3))",
        'row("MNF-1", "14.01.2026 12:00", "14.01.2026 20:00")]\n'
        "    result = import_manifest(lines, store, datetime(2026, 1, 15, 3))",
        'row("MNF-1", "14.01.2026 12:00", "14.01.2026 20:00")]\n'
        "    result = import_manifest(lines, store, utc(2026, 1, 15, 3))",
        "store, datetime(2026, 3, 29, 3))",
        "store, utc(2026, 3, 29, 3))",
        "clock.to_local(datetime(2026, month, 15, 3))",
        "clock.to_local(utc(2026, month, 15, 3))",
        "now = datetime(2026, month, 15, 3) +",
        "now = utc(2026, month, 15, 3) +",
        "from datetime import datetime, timedelta\n",
        "from datetime import timedelta\n",
        "import HEADER, error_of, row\n",
        "import HEADER, error_of, row, utc\n",
    )
    run.edit(
        "",
        "tests/test_schedule.py",
        "MORNING = datetime(2026, 2, 10, 8)\n",
        "MORNING = utc(2026, 2, 10, 8)\n",
        "import KITTIWAKE, call\n",
        "import KITTIWAKE, call, utc\n",
        "from datetime import datetime, timedelta\n",
        "from datetime import timedelta\n",
    )
    run.tests("", "imports", "schedule")
    run.read(
        "", "tests/test_storage.py", "tests/test_tariffs.py", "tests/test_report.py",
        "tests/test_notices.py",
    )  # fmt: skip
    run.edit(
        "",
        "tests/test_storage.py",
        "    begin = datetime(2026, 2, 10, 8)\n",
        "    begin = utc(2026, 2, 10, 8)\n",
        "from datetime import datetime, timedelta\n",
        "from datetime import timedelta\n",
        "import KITTIWAKE, call, error_of\n",
        "import KITTIWAKE, call, error_of, utc\n",
    )
    run.edit(
        "",
        "tests/test_tariffs.py",
        "    assert is_night(datetime(2026, 7, 15, 3, 30))\n"
        "    assert not is_night(datetime(2026, 7, 15, 4, 30))\n"
        "    assert is_night(datetime(2026, 7, 15, 20))\n\n\n"
        "def test_summer_season_is_the_time_of_summer_time() -> None:\n"
        "    assert is_summer(datetime(2026, 7, 15, 12))\n"
        "    assert not is_summer(datetime(2026, 1, 15, 12))\n",
        "    assert is_night(utc(2026, 7, 15, 3, 30))\n"
        "    assert not is_night(utc(2026, 7, 15, 4, 30))\n"
        "    assert is_night(utc(2026, 7, 15, 20))\n\n\n"
        "def test_summer_season_is_the_time_of_summer_time() -> None:\n"
        "    assert is_summer(utc(2026, 7, 15, 12))\n"
        "    assert not is_summer(utc(2026, 1, 15, 12))\n",
        "from datetime import datetime\nfrom decimal import Decimal\n",
        "from decimal import Decimal\n",
    )
    run.tests("", "storage", "tariffs")
    run.edit(
        "The import of `utc` is missing there.",
        "tests/test_tariffs.py",
        "import KITTIWAKE, call\n",
        "import KITTIWAKE, call, utc\n",
    )
    run.edit(
        "",
        "tests/test_report.py",
        'call("MNF-2", datetime(2026, 2, 12, 8))',
        'call("MNF-2", utc(2026, 2, 12, 8))',
        "import KITTIWAKE, call\n",
        "import KITTIWAKE, call, utc\n",
    )
    run.edit(
        "",
        "tests/test_notices.py",
        "from datetime import datetime\n\nfrom harbour.notices import FOOTER, line_for, notices_for\n\n"
        "from tests.samples import AURELIA, KITTIWAKE, call\n",
        "from harbour.notices import FOOTER, line_for, notices_for\n\n"
        "from tests.samples import AURELIA, KITTIWAKE, call, utc\n",
        "arrival=datetime(2026, 7, 15, 10)",
        "arrival=utc(2026, 7, 15, 10)",
    )
    run.edit(
        "A test for the old version of the store:",
        "tests/test_storage.py",
        "def test_damaged_lines_are_named() -> None:\n",
        "def test_version_3_is_read_as_utc() -> None:\n"
        "    store = Store()\n"
        '    store.save(call("MNF-1"))\n'
        '    old = store.lines[0].replace(\'"version": 4\', \'"version": 3\').replace("00Z", "00")\n\n'
        '    assert Store([old]).load() == {"MNF-1": call("MNF-1")}\n\n\n'
        "def test_damaged_lines_are_named() -> None:\n",
    )
    run.tests("")
    run.edit(
        "And the open point in the documentation is settled.",
        "docs/times.md",
        "| store | see HB-3310, not decided |\n",
        "| store | UTC, with a Z at the end (HB-3310) |\n",
    )
    run.diff("A last look at everything.")
    run.read("", CLOCK, STORAGE)
    run.commit("", "HB-3310: times are aware and stored in UTC")
    run.answer(
        "All moments are aware and in UTC, and the store writes them with a Z; its version is 4 "
        "now, and lines of version 3 are read as UTC. Local times stay naive, so comparing one with "
        "a moment raises an error. `parse_manifest_row` has the same name and argument as before; "
        "its calls carry aware times now, which the customs team will see."
    )
