"""The instruction budget: entries, totals, and booking of messages."""

from jaato_gc.budget.booking import BookedEntry as BookedEntry
from jaato_gc.budget.booking import Booking as Booking
from jaato_gc.budget.booking import PolicyOf as PolicyOf
from jaato_gc.budget.budget import InstructionBudget as InstructionBudget
from jaato_gc.budget.entry import SourceEntry as SourceEntry
from jaato_gc.budget.snapshots import SavedBudget as SavedBudget
from jaato_gc.budget.views import HostBudget as HostBudget
from jaato_gc.budget.views import ReadOnlyBudget as ReadOnlyBudget
from jaato_gc.budget.views import view_of as view_of
