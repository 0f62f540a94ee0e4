"""Harbour dues: by length, stay, season and cargo."""

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from harbour import clock
from harbour.vessels import Call, needs_pilot

CENT = Decimal("0.01")
PER_METRE = Decimal("4.20")
PER_TUG = Decimal("310.00")
PILOTAGE = Decimal("275.50")
MIN_HOURS = 6
NIGHT_HOURS = range(22, 24), range(0, 6)
NIGHT_SURCHARGE = Decimal("0.15")
SUMMER_SURCHARGE = Decimal("0.10")
CARGO_FACTORS = {
    "GEN": Decimal("1.00"),
    "CON": Decimal("1.15"),
    "BLK": Decimal("0.95"),
    "LIQ": Decimal("1.20"),
    "PAX": Decimal("0.80"),
    "DGR": Decimal("1.75"),
}


@dataclass(frozen=True)
class Line:
    """One line of an invoice."""

    text: str
    amount: Decimal


@dataclass(frozen=True)
class Invoice:
    """The dues of one call."""

    manifest: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> Decimal:
        """Sum of all lines."""
        return sum((line.amount for line in self.lines), Decimal(0))


def billed_hours(call: Call) -> int:
    """Returns the hours at the berth, rounded up, with a minimum."""
    seconds = int(call.stay.total_seconds())
    return max(MIN_HOURS, -(-seconds // 3600))


def is_night(moment: datetime) -> bool:
    """Returns whether a moment is at night, by the clock on the wall."""
    hour = clock.to_local(moment).hour
    return any(hour in hours for hours in NIGHT_HOURS)


def is_summer(moment: datetime) -> bool:
    """Returns whether the summer surcharge applies."""
    return clock.offset_at(moment) == clock.SUMMER_OFFSET


def rounded(amount: Decimal) -> Decimal:
    """Rounds to cents, half up."""
    return amount.quantize(CENT, ROUND_HALF_UP)


def invoice_for(call: Call) -> Invoice:
    """Returns the invoice of a call."""
    length = Decimal(str(call.vessel.length_m))
    days = Decimal(billed_hours(call)) / 24
    base = rounded(length * PER_METRE * days * CARGO_FACTORS[call.cargo])
    lines = [Line(f"berth {call.berth}, {billed_hours(call)} h", base)]
    if is_night(call.arrival):
        lines.append(Line("arrival at night", rounded(base * NIGHT_SURCHARGE)))
    if is_summer(call.arrival):
        lines.append(Line("summer season", rounded(base * SUMMER_SURCHARGE)))
    if needs_pilot(call.vessel):
        lines.append(Line("pilotage", PILOTAGE))
    if call.tugs:
        lines.append(Line(f"tugs: {call.tugs}", call.tugs * PER_TUG))
    return Invoice(call.manifest, tuple(lines))
