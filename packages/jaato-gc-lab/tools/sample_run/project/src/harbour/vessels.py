"""Vessels, and the calls that they make at the harbour."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

MAX_LENGTH_M = 240.0
MAX_DRAUGHT_M = 11.5
CARGO_CODES = {
    "GEN": "general cargo",
    "CON": "containers",
    "BLK": "dry bulk",
    "LIQ": "liquid bulk",
    "PAX": "passengers",
    "DGR": "dangerous goods",
}


@dataclass(frozen=True)
class Vessel:
    """A vessel as the register describes it."""

    call_sign: str
    name: str
    length_m: float
    draught_m: float
    agent: str = ""

    def problems(self) -> list[str]:
        """Returns the reasons why the vessel can't enter the harbour."""
        found = []
        if not self.call_sign:
            found.append("missing call sign")
        if self.length_m <= 0 or self.length_m > MAX_LENGTH_M:
            found.append(f"length {self.length_m} m is outside of 0 to {MAX_LENGTH_M} m")
        if self.draught_m > MAX_DRAUGHT_M:
            found.append(f"draught {self.draught_m} m exceeds {MAX_DRAUGHT_M} m")
        return found


@dataclass(frozen=True)
class Call:
    """One visit of a vessel: it arrives, stays at a berth, and departs."""

    manifest: str
    vessel: Vessel
    arrival: datetime
    departure: datetime
    berth: str
    cargo: str = "GEN"
    tugs: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def stay(self) -> timedelta:
        """Time at the berth."""
        return self.departure - self.arrival

    @property
    def is_dangerous(self) -> bool:
        """Whether the call needs a permit of the harbour master."""
        return self.cargo == "DGR"

    def moved_to(self, berth: str, remark: str = "") -> "Call":
        """Returns the call at another berth."""
        remarks = [*self.remarks, remark] if remark else self.remarks
        return replace(self, berth=berth, remarks=remarks)

    def problems(self) -> list[str]:
        """Returns the reasons why the call can't be planned."""
        found = self.vessel.problems()
        if self.departure <= self.arrival:
            found.append("departure is not after arrival")
        if self.cargo not in CARGO_CODES:
            known = ", ".join(CARGO_CODES)
            found.append(f"unknown cargo code {self.cargo!r}: expected one of {known}")
        if self.tugs < 0:
            found.append("negative number of tugs")
        return found


def needs_pilot(vessel: Vessel) -> bool:
    """Returns whether a vessel has to take a pilot on board."""
    return vessel.length_m >= 90 or vessel.draught_m >= 7


def tugs_for(vessel: Vessel, wind_knots: float) -> int:
    """Returns the number of tugs that a vessel needs in a wind."""
    if vessel.length_m < 70:
        return 0
    tugs = 1 if vessel.length_m < 120 else 2
    if wind_knots > 25:
        tugs += 1
    return tugs
