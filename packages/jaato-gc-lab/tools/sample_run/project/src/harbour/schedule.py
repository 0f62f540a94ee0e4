"""Assigns calls to berths and finds conflicts between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from harbour.vessels import Call

TURNAROUND = timedelta(minutes=30)
"""Time between two calls at the same berth."""


@dataclass(frozen=True)
class Berth:
    """A place at a quay."""

    name: str
    length_m: float
    depth_m: float
    allows_dangerous: bool = False

    def takes(self, call: Call) -> bool:
        """Returns whether a call can use the berth at all."""
        if call.is_dangerous and not self.allows_dangerous:
            return False
        return call.vessel.length_m <= self.length_m and call.vessel.draught_m < self.depth_m


BERTHS = (
    Berth("Q1-South", 90, 6.5),
    Berth("Q3-East", 140, 8.0),
    Berth("Q5-East", 140, 8.0, allows_dangerous=True),
    Berth("Q7-North", 240, 12.0),
    Berth("Q8-North", 240, 12.0, allows_dangerous=True),
)


@dataclass(frozen=True)
class Conflict:
    """Two calls that need the same berth at the same time."""

    first: Call
    second: Call

    @property
    def begins(self) -> datetime:
        """The moment at which the second call needs the berth."""
        return max(self.first.arrival, self.second.arrival)

    def __str__(self) -> str:
        names = f"{self.first.vessel.name} and {self.second.vessel.name}"
        return f"{names} at {self.first.berth}"


def overlaps(one: Call, other: Call) -> bool:
    """Returns whether two calls overlap, including the turnaround."""
    return one.arrival < other.departure + TURNAROUND and other.arrival < one.departure + TURNAROUND


def find_conflicts(calls: Iterable[Call]) -> list[Conflict]:
    """Returns the pairs of calls that need the same berth at the same time."""
    ordered = sorted(calls, key=lambda call: (call.arrival, call.manifest))
    return [
        Conflict(one, other)
        for one, other in combinations(ordered, 2)
        if one.berth == other.berth and overlaps(one, other)
    ]


def free_berths(call: Call, planned: Sequence[Call], berths: Sequence[Berth] = BERTHS) -> list[str]:
    """Returns the berths that a call could use, the smallest first."""
    usable = [berth for berth in berths if berth.takes(call)]
    return [
        berth.name
        for berth in sorted(usable, key=lambda each: (each.length_m, each.name))
        if not any(each.berth == berth.name and overlaps(each, call) for each in planned)
    ]


def resolve(calls: Sequence[Call]) -> tuple[list[Call], list[Conflict]]:
    """Moves calls to free berths and returns the plan, and the conflicts that are left."""
    plan: list[Call] = []
    left: list[Conflict] = []
    for call in sorted(calls, key=lambda each: (each.arrival, each.manifest)):
        at_berth = [each for each in plan if each.berth == call.berth]
        clash = next((each for each in at_berth if overlaps(each, call)), None)
        if clash is None:
            plan.append(call)
            continue
        free = free_berths(call, plan)
        if free:
            plan.append(call.moved_to(free[0], f"moved from {call.berth}"))
        else:
            plan.append(call)
            left.append(Conflict(clash, call))
    return plan, left
