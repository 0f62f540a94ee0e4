"""Calls and manifests for the tests."""

from collections.abc import Callable
from datetime import datetime, timedelta

from harbour.vessels import Call, Vessel

AURELIA = Vessel("OXAB2", "Aurelia Boreas", 132.5, 7.1, "Nordlys Shipping")
KITTIWAKE = Vessel("OYKW7", "Kittiwake", 64.0, 4.2, "Brant & Sons")
HEADER = "manifest;call_sign;vessel;length_m;draught_m;agent;arrival;departure;berth;cargo;tugs"


def error_of(function: Callable[..., object], *arguments: object) -> str:
    """Returns the message of the error that a function raises."""
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    raise AssertionError("no error was raised")


def row(manifest: str, arrival: str, departure: str, berth: str = "Q7-North") -> str:
    """Returns a row of a manifest about the Aurelia Boreas."""
    vessel = "OXAB2;Aurelia Boreas;132,5;7,1;Nordlys Shipping"
    return f"{manifest};{vessel};{arrival};{departure};{berth};CON;2"


def call(
    manifest: str = "MNF-1",
    arrival: datetime = datetime(2026, 2, 10, 8),
    hours: float = 10,
    berth: str = "Q7-North",
    vessel: Vessel = AURELIA,
    cargo: str = "CON",
) -> Call:
    """Returns a call with the given values."""
    return Call(manifest, vessel, arrival, arrival + timedelta(hours=hours), berth, cargo)
