"""Imports the manifests that shipping agents send every night."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harbour import clock
from harbour.storage import Store
from harbour.vessels import Call, Vessel

COLUMNS = (
    "manifest", "call_sign", "vessel", "length_m", "draught_m", "agent", "arrival", "departure",
    "berth", "cargo", "tugs",
)  # fmt: skip
MAX_ROWS = 5_000


class ManifestError(ValueError):
    """A manifest can't be read at all."""


@dataclass
class ImportResult:
    """What became of the rows of one manifest file."""

    stored: list[Call] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    expired: list[Call] = field(default_factory=list)

    def summary(self) -> str:
        """Returns the line for the log."""
        return (
            f"stored={len(self.stored)} rejected={len(self.rejected)} expired={len(self.expired)}"
        )


def parse_header(line: str) -> list[str]:
    """Reads the header of a manifest file and returns its columns."""
    columns = [each.strip().lower() for each in line.split(";")]
    missing = [each for each in COLUMNS if each not in columns]
    if missing:
        raise ManifestError(f"missing columns: {', '.join(missing)}")
    return columns


def parse_manifest_row(row: Mapping[str, str]) -> Call:
    """Reads one row of a manifest. Times in a manifest are local."""
    vessel = Vessel(
        call_sign=row["call_sign"].strip().upper(),
        name=row["vessel"].strip(),
        length_m=parse_number(row["length_m"]),
        draught_m=parse_number(row["draught_m"]),
        agent=row["agent"].strip(),
    )
    return Call(
        manifest=row["manifest"].strip(),
        vessel=vessel,
        arrival=clock.to_utc(clock.parse_time(row["arrival"])),
        departure=clock.to_utc(clock.parse_time(row["departure"])),
        berth=row["berth"].strip(),
        cargo=row["cargo"].strip().upper() or "GEN",
        tugs=int(row["tugs"] or 0),
    )


def parse_number(text: str) -> float:
    """Reads a number with a decimal comma or point."""
    return float(text.strip().replace(",", "."))


def parse_manifest(lines: Iterable[str]) -> tuple[list[Call], list[tuple[int, str]]]:
    """Reads a manifest file and returns its calls, and the invalid rows with their reasons."""
    rows = iter(lines)
    columns = parse_header(next(rows, ""))
    calls: list[Call] = []
    rejected: list[tuple[int, str]] = []
    for number, row in enumerate(csv.DictReader(rows, columns, delimiter=";"), 2):
        if number > MAX_ROWS:
            raise ManifestError(f"more than {MAX_ROWS} rows")
        try:
            call = parse_manifest_row(row)
        except (KeyError, ValueError) as error:
            rejected.append((number, str(error)))
            continue
        problems = call.problems()
        if problems:
            rejected.append((number, "; ".join(problems)))
        else:
            calls.append(call)
    return calls, rejected


def import_manifest(lines: Iterable[str], store: Store, utc_now: datetime) -> ImportResult:
    """Imports a manifest file: stores the calls that are still expected."""
    calls, rejected = parse_manifest(lines)
    result = ImportResult(rejected=rejected)
    now = clock.local_now(utc_now)
    for call in calls:
        if clock.is_expired(call.arrival, now):
            result.expired.append(call)
            continue
        store.save(call)
        result.stored.append(call)
    return result
