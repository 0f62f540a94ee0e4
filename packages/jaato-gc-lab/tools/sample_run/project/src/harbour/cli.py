"""The command line of the harbour."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from harbour import clock
from harbour.imports import ManifestError, import_manifest
from harbour.notices import notices_for
from harbour.report import daily_report
from harbour.schedule import resolve
from harbour.storage import Store

DEFAULT_STORE = Path("/var/lib/harbour/calls.jsonl")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser with all commands."""
    parser = argparse.ArgumentParser(prog="harbour")
    parser.add_argument("--store", type=Path, default=DEFAULT_STORE)
    commands = parser.add_subparsers(dest="command", required=True)
    importing = commands.add_parser("import", help="import manifest files")
    importing.add_argument("files", type=Path, nargs="+")
    report = commands.add_parser("report", help="print the report of a day")
    report.add_argument("day", help="DD.MM.YYYY")
    notices = commands.add_parser("notices", help="print the notices of a day")
    notices.add_argument("day", help="DD.MM.YYYY")
    return parser


def read_store(path: Path) -> Store:
    """Reads the store, which may not exist yet."""
    if not path.exists():
        return Store()
    return Store(path.read_text(encoding="utf-8").splitlines())


def write_store(path: Path, store: Store) -> None:
    """Writes the store beside its place, then renames it."""
    temporary = path.with_suffix(".part")
    temporary.write_text("\n".join(store.lines) + "\n", encoding="utf-8")
    temporary.replace(path)


def run_import(args: argparse.Namespace, utc_now: datetime) -> int:
    """Imports manifest files and returns the exit code."""
    store = read_store(args.store)
    code = 0
    for file in args.files:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            result = import_manifest(lines, store, utc_now)
        except (OSError, ManifestError) as error:
            print(f"{file}: {error}")
            code = 1
            continue
        print(f"{file}: {result.summary()}")
        for number, reason in result.rejected:
            print(f"{file}:{number}: {reason}")
    if store.writes:
        write_store(args.store, store)
    return code


def run_report(args: argparse.Namespace, utc_now: datetime) -> int:  # noqa: ARG001
    """Prints the report of a day."""
    print(daily_report(read_store(args.store), clock.parse_time(f"{args.day} 00:00")))
    return 0


def run_notices(args: argparse.Namespace, utc_now: datetime) -> int:  # noqa: ARG001
    """Prints the notices of a day."""
    day = clock.parse_time(f"{args.day} 00:00")
    store = read_store(args.store)
    calls = store.between(clock.to_utc(day), clock.to_utc(day + timedelta(days=1)))
    plan, conflicts = resolve(list(calls))
    for notice in notices_for(plan):
        print(f"To: {notice.recipient}\nSubject: {notice.subject}\n\n{notice.body}\n")
    for conflict in conflicts:
        print(f"conflict: {conflict}")
    return 1 if conflicts else 0


RUN: dict[str, Callable[[argparse.Namespace, datetime], int]] = {
    "import": run_import,
    "report": run_report,
    "notices": run_notices,
}


def main(arguments: Sequence[str], utc_now: datetime) -> int:
    """Runs a command and returns its exit code."""
    args = make_parser().parse_args(arguments)
    return RUN[args.command](args, utc_now)
