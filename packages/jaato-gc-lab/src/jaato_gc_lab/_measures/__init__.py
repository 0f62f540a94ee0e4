"""What a run loses when a collection removes content: edits, context, names and files.

All measures compare strings in recordings. None shows that a model would do better or worse.
"""

from jaato_gc_lab._measures.losses import Losses, Wanted
from jaato_gc_lab._measures.rereads import Rereads

__all__ = ["Losses", "Rereads", "Wanted"]
