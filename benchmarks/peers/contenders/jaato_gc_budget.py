"""jaato-gc with gc_budget, as a session counts by default: estimates, corrected by usage."""

from contender import Contender

from contenders.jaato_gc_session import SessionContender
from jaato_gc import EstimateCounter
from jaato_gc_budget import create_plugin


def make() -> Contender:
    """Returns the contender."""
    return SessionContender(
        "jaato-gc gc_budget", "jaato-gc-budget", create_plugin, EstimateCounter()
    )
