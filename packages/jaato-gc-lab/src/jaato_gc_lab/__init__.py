"""Inspects contexts, replays recorded runs with every strategy, and compares the results.

Import every public name from here. Modules whose names start with an underscore are private.
"""

from jaato_gc_lab._budget_panel import BudgetPanel
from jaato_gc_lab._compare import compare, find_files
from jaato_gc_lab._comparison import Cell, CellResult, Comparison, StrategyTotals
from jaato_gc_lab._contenders import CONTENDERS, KEEP_LAST, NONE
from jaato_gc_lab._overhead import estimated_overhead
from jaato_gc_lab._page import chart_svg, report_page
from jaato_gc_lab._prices import Price, Prices, load_prices
from jaato_gc_lab._ranking import RULE, Place, Ranking, rank
from jaato_gc_lab._replay import replay
from jaato_gc_lab._reports import BlindEdit, Loss, ReplayedCollection, ReplayedRequest, ReplayReport
from jaato_gc_lab._sample import sample_conversation, sample_path
from jaato_gc_lab._version import __version__

__all__ = [
    "CONTENDERS",
    "KEEP_LAST",
    "NONE",
    "RULE",
    "BlindEdit",
    "BudgetPanel",
    "Cell",
    "CellResult",
    "Comparison",
    "Loss",
    "Place",
    "Price",
    "Prices",
    "Ranking",
    "ReplayReport",
    "ReplayedCollection",
    "ReplayedRequest",
    "StrategyTotals",
    "__version__",
    "chart_svg",
    "compare",
    "estimated_overhead",
    "find_files",
    "load_prices",
    "rank",
    "replay",
    "report_page",
    "sample_conversation",
    "sample_path",
]
