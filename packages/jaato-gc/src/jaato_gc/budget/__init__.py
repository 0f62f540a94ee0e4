"""The instruction budget: entries, totals, and booking of messages."""

from jaato_gc.budget.booking import BookedEntry, Booking, PolicyOf
from jaato_gc.budget.budget import InstructionBudget
from jaato_gc.budget.entry import SourceEntry
from jaato_gc.budget.views import HostBudget, ReadOnlyBudget, view_of

__all__ = [
    "BookedEntry",
    "Booking",
    "HostBudget",
    "InstructionBudget",
    "PolicyOf",
    "ReadOnlyBudget",
    "SourceEntry",
    "view_of",
]
