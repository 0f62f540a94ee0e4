"""Keeps calls as JSON lines, one per call, the newest version last."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from harbour.vessels import Call, Vessel

VERSION = 3
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"


class StorageError(ValueError):
    """A stored line can't be read."""


class Store:
    """The calls of the harbour, by manifest."""

    def __init__(self, lines: list[str] | None = None) -> None:
        self.lines = lines if lines is not None else []
        self.writes = 0

    def save(self, call: Call) -> None:
        """Stores a call. A call with the same manifest is replaced."""
        self.lines.append(json.dumps(encode(call), sort_keys=True))
        self.writes += 1

    def load(self) -> dict[str, Call]:
        """Returns the newest version of each call, by manifest."""
        found: dict[str, Call] = {}
        for number, line in enumerate(self.lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                call = decode(record)
            except (ValueError, KeyError, TypeError) as error:
                raise StorageError(f"line {number}: {error}") from error
            found[call.manifest] = call
        return found

    def between(self, begin: datetime, end: datetime) -> Iterator[Call]:
        """Yields the calls that are at a berth at some time between two moments."""
        for call in sorted(self.load().values(), key=lambda each: each.arrival):
            if call.arrival < end and call.departure > begin:
                yield call

    def compact(self) -> int:
        """Removes replaced versions and returns how many lines that saved."""
        before = len(self.lines)
        newest = self.load()
        self.lines[:] = [json.dumps(encode(call), sort_keys=True) for call in newest.values()]
        return before - len(self.lines)


def encode(call: Call) -> dict[str, Any]:
    """Returns a call as JSON data."""
    return {
        "version": VERSION,
        "manifest": call.manifest,
        "call_sign": call.vessel.call_sign,
        "vessel": call.vessel.name,
        "length_m": call.vessel.length_m,
        "draught_m": call.vessel.draught_m,
        "agent": call.vessel.agent,
        "arrival": call.arrival.strftime(TIME_FORMAT),
        "departure": call.departure.strftime(TIME_FORMAT),
        "berth": call.berth,
        "cargo": call.cargo,
        "tugs": call.tugs,
        "remarks": call.remarks,
    }


def decode(record: dict[str, Any]) -> Call:
    """Returns the call in a stored record."""
    if record["version"] > VERSION:
        raise StorageError(f"version {record['version']} is newer than {VERSION}")
    vessel = Vessel(
        record["call_sign"],
        record["vessel"],
        record["length_m"],
        record["draught_m"],
        record.get("agent", ""),
    )
    return Call(
        record["manifest"],
        vessel,
        datetime.strptime(record["arrival"], TIME_FORMAT),
        datetime.strptime(record["departure"], TIME_FORMAT),
        record["berth"],
        record["cargo"],
        record["tugs"],
        list(record.get("remarks", [])),
    )
