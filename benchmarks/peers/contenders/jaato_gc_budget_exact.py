"""jaato-gc with gc_budget, every message tokenised."""

from contender import Contender

from contenders.jaato_gc_session import SessionContender
from jaato_gc import TiktokenCounter
from jaato_gc_budget import create_plugin


def make() -> Contender:
    """Returns the contender."""
    return SessionContender(
        "jaato-gc gc_budget, exact", "jaato-gc-budget", create_plugin, TiktokenCounter()
    )
