"""Turns six to twelve: wishes of the office, which depend on what was decided early."""

# ruff: noqa: E501 (quoted code keeps its lines)

from sample_run.clock_change import CLOCK, IMPORTS, STORAGE, TEST_CLOCK, TEST_IMPORTS
from sample_run.dry_run import CLI
from sample_run.transcript import Transcript

REPORT = "src/harbour/report.py"
TEST_REPORT = "tests/test_report.py"
SCHEDULE = "src/harbour/schedule.py"
TEST_SCHEDULE = "tests/test_schedule.py"

INVOICE = """\
from harbour import imports, tariffs
from tests.samples import HEADER, row

line = row("MNF-20260329-0417", "29.03.2026 05:20", "29.03.2026 14:00")
[call], _ = imports.parse_manifest([HEADER, line])
for each in tariffs.invoice_for(call).lines:
    print(f"{each.text:<24}{each.amount:>10}")
print(call.arrival, tariffs.is_night(call.arrival))"""


def show_arrivals(run: Transcript) -> None:
    """Adds a turn with a new column, whose times are stored in UTC and shown in local time."""
    run.user("The office wants the time of arrival in the daily report, after the berth.")
    run.read("", REPORT, TEST_REPORT)
    run.edit(
        "A test in summer, where stored and local time differ most.",
        TEST_REPORT,
        "def test_report_lists_the_calls_of_the_day() -> None:\n",
        "def test_arrival_is_shown_in_local_time() -> None:\n"
        '    assert "15.07.2026 12:00" in cells(call(arrival=utc(2026, 7, 15, 10)))\n\n\n'
        "def test_report_lists_the_calls_of_the_day() -> None:\n",
    )
    run.tests("", "report")
    run.edit(
        "",
        REPORT,
        '"vessel", "berth", "stay", "dues")\n',
        '"vessel", "berth", "arrival", "stay", "dues")\n',
        "        call.berth,\n",
        '        call.berth,\n        f"{call.arrival:%d.%m.%Y %H:%M}",\n',
    )
    run.tests("", "report")
    run.edit(
        "That is the stored time, in UTC. For people it has to be local.",
        REPORT,
        '        f"{call.arrival:%d.%m.%Y %H:%M}",\n',
        "        clock.format_time(call.arrival),\n",
    )
    run.tests("")
    run.commit("", "HB-4133: arrivals in the daily report")
    run.answer(
        "The report has a column with the arrival after the berth. Times stay stored in UTC; the "
        "column shows local time."
    )


def explain_an_invoice(run: Transcript) -> None:
    """Adds a turn with a question about the dues."""
    run.user(
        "The agent of the Aurelia Boreas complains about a surcharge for the night on "
        "MNF-20260329-0417. Is it right? Nothing to change yet."
    )
    run.read("", "src/harbour/tariffs.py", "tests/test_tariffs.py")
    run.python("I'll calculate that invoice.", INVOICE)
    run.answer(
        "It is right. The vessel arrived at 05:20 local time, and the night lasts until 06:00 by "
        "the clock on the wall. The surcharge is 15 % of the berth, 36.00."
    )


def rename_the_readers(run: Transcript) -> None:
    """Adds a turn with a rename that must leave out one name, for the reason in turn two."""
    run.user(
        "We call a function read_* if it reads text that comes from outside, and the code has "
        "parse_* everywhere. Please rename these functions in all modules, with their tests."
    )
    run.search("", "parse_")
    run.read("", IMPORTS, CLOCK)
    run.edit(
        "One of them stays: you said that `parse_manifest_row` must not change because the nightly "
        "job of the customs team imports it. I'll write that down where the next one will look.",
        IMPORTS,
        "def parse_manifest_row(row: Mapping[str, str]) -> Call:\n"
        '    """Reads one row of a manifest. Times in a manifest are local."""\n',
        "def parse_manifest_row(row: Mapping[str, str]) -> Call:\n"
        '    """Reads one row of a manifest. Times in a manifest are local.\n\n'
        "    The nightly job of the customs team imports this function: its name and its argument\n"
        "    must not change.\n"
        '    """\n',
        "def parse_header(line: str) -> list[str]:\n",
        "def read_header(line: str) -> list[str]:\n",
        '    columns = parse_header(next(rows, ""))\n',
        '    columns = read_header(next(rows, ""))\n',
        "def parse_number(text: str) -> float:\n",
        "def read_number(text: str) -> float:\n",
        '        length_m=parse_number(row["length_m"]),\n'
        '        draught_m=parse_number(row["draught_m"]),\n',
        '        length_m=read_number(row["length_m"]),\n'
        '        draught_m=read_number(row["draught_m"]),\n',
        "def parse_manifest(lines: Iterable[str])",
        "def read_manifest(lines: Iterable[str])",
        "    calls, rejected = parse_manifest(lines)\n",
        "    calls, rejected = read_manifest(lines)\n",
        '        arrival=clock.to_utc(clock.parse_time(row["arrival"])),\n'
        '        departure=clock.to_utc(clock.parse_time(row["departure"])),\n',
        '        arrival=clock.to_utc(clock.read_time(row["arrival"])),\n'
        '        departure=clock.to_utc(clock.read_time(row["departure"])),\n',
    )
    run.edit(
        "",
        CLOCK,
        "def parse_time(text: str) -> datetime:\n",
        "def read_time(text: str) -> datetime:\n",
    )
    run.tests("", "imports", "clock")
    run.read("", TEST_IMPORTS, TEST_CLOCK)
    run.edit(
        "",
        TEST_IMPORTS,
        "    import_manifest,\n    parse_header,\n    parse_manifest,\n    parse_manifest_row,\n"
        "    parse_number,\n)\n",
        "    import_manifest,\n    parse_manifest_row,\n    read_header,\n    read_manifest,\n"
        "    read_number,\n)\n",
        "    assert parse_header(HEADER.upper()) == COLUMNS\n",
        "    assert read_header(HEADER.upper()) == COLUMNS\n",
        "    message = error_of(parse_header, HEADER",
        "    message = error_of(read_header, HEADER",
        '    assert parse_number(" 132,5") == parse_number("132.5") == 132.5\n',
        '    assert read_number(" 132,5") == read_number("132.5") == 132.5\n',
        "    calls, rejected = parse_manifest(lines)\n",
        "    calls, rejected = read_manifest(lines)\n",
    )
    run.edit(
        "",
        TEST_CLOCK,
        '    assert clock.parse_time(" 29.03.2026 02:30 ")',
        '    assert clock.read_time(" 29.03.2026 02:30 ")',
    )
    run.tests("", "imports", "clock")
    run.search("What is left?", "parse_", "src")
    run.read("The command has two calls of `parse_time`, without a test.", CLI)
    run.edit(
        "",
        CLI,
        '    print(daily_report(read_store(args.store), clock.parse_time(f"{args.day} 00:00")))\n',
        '    print(daily_report(read_store(args.store), clock.read_time(f"{args.day} 00:00")))\n',
        '    day = clock.parse_time(f"{args.day} 00:00")\n',
        '    day = clock.read_time(f"{args.day} 00:00")\n',
    )
    run.edit(
        "The tests would not have noticed, so here is one.",
        "tests/test_cli.py",
        "def test_import_writes_the_store() -> None:\n",
        "def test_report_and_notices_of_an_empty_store() -> None:\n"
        '    for command, expected in (("report", "No calls."), ("notices", "")):\n'
        "        printed = io.StringIO()\n"
        "        with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed):\n"
        '            main(["--store", f"{folder}/none.jsonl", command, "15.01.2026"], NOW)\n'
        "        assert printed.getvalue().strip().endswith(expected)\n\n\n"
        "def test_import_writes_the_store() -> None:\n",
    )
    run.tests("")
    run.diff("")
    run.commit("", "HB-4140: functions that read are called read_*")
    run.answer(
        "`parse_header`, `parse_number`, `parse_manifest` and `clock.parse_time` are called read_* "
        "now. `parse_manifest_row` keeps its name and its argument, as you decided: the nightly job "
        "of the customs team imports it. Its docstring says so now."
    )


def close_a_berth(run: Transcript) -> None:
    """Adds a turn with a feature in a module that was not read before."""
    run.user(
        "Berth Q5-East is closed for repairs from 12 May 2026, 06:00, to 14 May, 18:00, local time. "
        "No call may be planned there meanwhile."
    )
    run.read("", SCHEDULE, TEST_SCHEDULE)
    run.edit(
        "Tests first: closed at that time, open before. The moments are in UTC, two hours less.",
        TEST_SCHEDULE,
        "def test_second_call_is_moved_to_a_free_berth() -> None:\n",
        "def test_closed_berths_take_no_calls() -> None:\n"
        "    during = call(arrival=utc(2026, 5, 13, 8))\n"
        "    before = call(arrival=utc(2026, 5, 11, 8))\n\n"
        '    assert "Q5-East" not in free_berths(during, [])\n'
        '    assert "Q5-East" in free_berths(before, [])\n\n\n'
        "def test_closing_begins_at_the_local_time_of_the_notice() -> None:\n"
        '    assert "Q5-East" in free_berths(call(arrival=utc(2026, 5, 12, 1), hours=3), [])\n'
        '    assert "Q5-East" not in free_berths(call(arrival=utc(2026, 5, 12, 1), hours=3.5), [])\n\n\n'
        "def test_second_call_is_moved_to_a_free_berth() -> None:\n",
    )
    run.tests("", "schedule")
    run.edit(
        "",
        SCHEDULE,
        "    allows_dangerous: bool = False\n\n",
        "    allows_dangerous: bool = False\n"
        "    closed: tuple[tuple[datetime, datetime], ...] = ()\n"
        '    """Times in UTC, each from its begin to its end."""\n\n',
        "            return False\n        return call.vessel.length_m",
        "            return False\n"
        "        if any(call.arrival < end and call.departure > begin for begin, end in self.closed):\n"
        "            return False\n        return call.vessel.length_m",
        "BERTHS = (\n",
        "REPAIRS = (\n"
        "    clock.to_utc(datetime(2026, 5, 12, 6)),\n"
        "    clock.to_utc(datetime(2026, 5, 14, 18)),\n"
        ")\n"
        '"""Of Q5-East, as the notice gives them, in local time."""\n'
        "BERTHS = (\n",
        '    Berth("Q5-East", 140, 8.0, allows_dangerous=True),\n',
        '    Berth("Q5-East", 140, 8.0, allows_dangerous=True, closed=(REPAIRS,)),\n',
    )
    run.tests("", "schedule")
    run.edit(
        "",
        SCHEDULE,
        "from harbour.vessels import Call\n",
        "from harbour import clock\nfrom harbour.vessels import Call\n",
    )
    run.tests("", "schedule")
    run.read("`resolve` only looks at free berths if there is a conflict.", SCHEDULE)
    run.edit(
        "A call that is planned for a closed berth has to move as well.",
        TEST_SCHEDULE,
        "def test_second_call_is_moved_to_a_free_berth() -> None:\n",
        "def test_call_at_a_closed_berth_is_moved() -> None:\n"
        '    plan, left = resolve([call(arrival=utc(2026, 5, 13, 8), berth="Q5-East")])\n\n'
        '    assert [each.berth for each in plan] == ["Q3-East"]\n'
        "    assert left == []\n\n\n"
        "def test_second_call_is_moved_to_a_free_berth() -> None:\n",
    )
    run.tests("", "schedule")
    run.edit(
        "",
        SCHEDULE,
        "        if clash is None:\n            plan.append(call)\n            continue\n",
        "        if clash is None and is_open(call):\n"
        "            plan.append(call)\n            continue\n",
        "            plan.append(call)\n            left.append(Conflict(clash, call))\n",
        "            plan.append(call)\n            left.append(Conflict(clash or call, call))\n",
        "def resolve(calls: Sequence[Call])",
        "def is_open(call: Call) -> bool:\n"
        '    """Returns whether the berth of a call takes it. Unknown berths are left alone."""\n'
        "    return all(berth.takes(call) for berth in BERTHS if berth.name == call.berth)\n\n\n"
        "def resolve(calls: Sequence[Call])",
    )
    run.tests("")
    run.commit("", "HB-4142: Q5-East is closed from 12 to 14 May 2026")
    run.answer(
        "Q5-East takes no calls from 12 May, 06:00, to 14 May, 18:00, local time; the code keeps "
        "the two moments in UTC. Calls that were planned there are moved to another berth."
    )


def review_the_import(run: Transcript) -> None:
    """Adds a turn that reads again what has changed, and finds a fault."""
    run.user(
        "Before we release: review the way of a manifest once more, from the command to the store, "
        "with its tests. Fix what is wrong, leave what is a matter of taste."
    )
    run.read("", CLI, IMPORTS)
    run.read("", CLOCK, "src/harbour/vessels.py", STORAGE)
    run.read("", TEST_IMPORTS, "tests/test_storage.py", "tests/test_cli.py")
    run.edit(
        "`read_manifest` counts rows from 2, because the header is row 1, but compares that number "
        "with MAX_ROWS. A file with exactly 5,000 calls would be refused.",
        TEST_IMPORTS,
        "def test_calls_of_the_coming_day_are_stored() -> None:\n",
        "def test_header_does_not_count_as_a_row() -> None:\n"
        '    one = row("MNF-1", "15.01.2026 12:00", "15.01.2026 20:00")\n'
        "    calls, _ = read_manifest([HEADER, *[one] * MAX_ROWS])\n\n"
        "    assert len(calls) == MAX_ROWS\n\n\n"
        "def test_calls_of_the_coming_day_are_stored() -> None:\n",
        "from harbour.imports import (\n    import_manifest,\n",
        "from harbour.imports import (\n    MAX_ROWS,\n    import_manifest,\n",
    )
    run.tests("", "imports")
    run.edit(
        "",
        IMPORTS,
        "        if number > MAX_ROWS:\n",
        "        if number > MAX_ROWS + 1:  # the header is the first line\n",
    )
    run.tests("")
    run.commit("", "HB-4144: files with exactly MAX_ROWS calls are accepted")
    run.answer(
        "One fault: the header counted as a row, so a file with exactly 5,000 calls was refused. "
        "That is fixed, with a test. I left alone that `Store.load` reads all lines for every "
        "report, which is a matter of size, not of correctness."
    )


def change_the_import_time(run: Transcript) -> None:
    """Adds a turn with edits of two files that were read in the first turn."""
    run.user(
        "Run the import at 02:00 UTC from now on, and the office wants a mail for the first expired "
        "call already. See the configuration for both."
    )
    run.edit(
        "",
        "deploy/import.toml",
        'on_calendar = "*-*-* 03:00:00 UTC"\n',
        'on_calendar = "*-*-* 02:00:00 UTC"\n',
        "max_expired = 5\n",
        "max_expired = 0\n",
    )
    run.edit(
        "",
        "docs/times.md",
        "The import of the night runs at 03:00 UTC.",
        "The import of the night runs at 02:00 UTC.",
    )
    run.search("Is the time anywhere else?", "03:00")
    run.commit("", "HB-4143: import at 02:00 UTC, mail for the first expired call")
    run.answer(
        "The import runs at 02:00 UTC, and the office gets a mail as soon as one call expires. "
        "`docs/times.md` names the new time."
    )


def write_the_change_log(run: Transcript) -> None:
    """Adds the last turn, which names what happened in the first ones."""
    run.user(
        "Write the change log for 4.3.0. Then tell me what the office and the customs team have to "
        "know."
    )
    run.read("", "CHANGELOG.md")
    run.run(
        "",
        "git log --format=%s 4.2.0..",
        "\n".join(
            (
                "HB-4143: import at 02:00 UTC, mail for the first expired call",
                "HB-4144: files with exactly MAX_ROWS calls are accepted",
                "HB-4142: Q5-East is closed from 12 to 14 May 2026",
                "HB-4140: functions that read are called read_*",
                "HB-4133: arrivals in the daily report",
                "HB-3310: works on Python 3.10 again",
                "HB-4130: harbour import --dry-run",
                "HB-3310: times are aware and stored in UTC",
                "HB-4127: compare arrivals in UTC",
            )
        ),
    )
    run.edit(
        "",
        "CHANGELOG.md",
        "# Changes\n\n",
        "# Changes\n\n## 4.3.0\n\n"
        "- Calls are no longer dropped in summer: arrivals are compared in UTC (HB-4127).\n"
        "- Times are stored in UTC, with a Z at the end; the store has version 4 (HB-3310).\n"
        "- `harbour import --dry-run` (HB-4130).\n"
        "- The daily report shows arrivals, in local time (HB-4133).\n"
        "- Functions that read are called `read_*`, except `parse_manifest_row` (HB-4140).\n"
        "- Q5-East is closed from 12 to 14 May 2026 (HB-4142).\n"
        "- Files with exactly 5,000 calls are accepted (HB-4144).\n"
        "- The import runs at 02:00 UTC and reports every expired call (HB-4143).\n\n",
    )
    run.edit(
        "",
        "src/harbour/__init__.py",
        '__version__ = "4.2.0"\n',
        '__version__ = "4.3.0"\n',
    )
    run.edit(
        "",
        "pyproject.toml",
        'version = "4.2.0"\n',
        'version = "4.3.0"\n',
    )
    run.tests("")
    run.commit("", "4.3.0")
    run.answer(
        "For the office: calls are no longer dropped in summer. MNF-20260329-0417, the Aurelia "
        "Boreas at Q7-North at 05:20, was dropped on 29 March and has to be imported again, with "
        "--dry-run first. The report shows arrivals, Q5-East is closed from 12 to 14 May, and every "
        "expired call sends a mail.\n\nFor the customs team: `parse_manifest_row` is still in "
        "`harbour.imports`, with the same argument. Its times are aware now and in UTC. Everything "
        "else there that began with parse_ begins with read_ now."
    )
