"""The conformance kit: what any strategy, ours or a third party's, is tested with."""

from jaato_gc_testing._histories import TEXTS, broken_histories, histories
from jaato_gc_testing._version import __version__

__all__ = ["TEXTS", "__version__", "broken_histories", "histories"]
