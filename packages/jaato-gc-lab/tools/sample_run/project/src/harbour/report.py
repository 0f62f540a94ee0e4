"""The daily report for the harbour office."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from harbour import clock
from harbour.schedule import find_conflicts
from harbour.storage import Store
from harbour.tariffs import invoice_for
from harbour.vessels import Call

COLUMNS = ("manifest", "vessel", "berth", "stay", "dues")


def cells(call: Call) -> tuple[str, ...]:
    """Returns the cells of a call, one per column."""
    hours, seconds = divmod(int(call.stay.total_seconds()), 3600)
    return (
        call.manifest,
        call.vessel.name,
        call.berth,
        f"{hours}:{seconds // 60:02d}",
        f"{invoice_for(call).total:.2f}",
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as a text table with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def daily_report(store: Store, day: datetime) -> str:
    """Returns the report of a local day."""
    begin = clock.to_utc(day)
    calls = list(store.between(begin, clock.to_utc(day + timedelta(days=1))))
    lines = [f"Harbour report for {day:%d.%m.%Y}", ""]
    if not calls:
        return "\n".join([*lines, "No calls."])
    lines.append(table([COLUMNS, *map(cells, calls)]))
    lines += ["", f"{len(calls)} calls, dues {total_dues(calls):.2f}"]
    conflicts = find_conflicts(calls)
    if conflicts:
        lines += ["", "Conflicts:", *(f"- {conflict}" for conflict in conflicts)]
    return "\n".join(lines)


def total_dues(calls: Iterable[Call]) -> float:
    """Returns the dues of all calls."""
    return float(sum(invoice_for(call).total for call in calls))
