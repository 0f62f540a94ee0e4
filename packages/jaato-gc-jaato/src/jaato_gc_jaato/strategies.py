"""The strategies of jaato-gc, under the names that a ``gc.json`` of jaato-server gives them."""

from jaato_gc_budget import BudgetGCPlugin
from jaato_gc_hybrid import HybridGCPlugin
from jaato_gc_jaato._plugin import bridge
from jaato_gc_marksweep import MarkSweepGCPlugin
from jaato_gc_summarize import SummarizeGCPlugin
from jaato_gc_truncate import TruncateGCPlugin

create_truncate = bridge(TruncateGCPlugin, "gc_jg_truncate")
create_summarize = bridge(SummarizeGCPlugin, "gc_jg_summarize")
create_hybrid = bridge(HybridGCPlugin, "gc_jg_hybrid")
create_budget = bridge(BudgetGCPlugin, "gc_jg_budget")
create_marksweep = bridge(MarkSweepGCPlugin, "gc_jg_marksweep")
