"""jaato-gc with gc_budget, anchored: estimates, set right by reported usage."""

from contender import Contender

from contenders.jaato_gc_session import SessionContender
from jaato_gc import EstimateCounter
from jaato_gc_budget import create_plugin


def make() -> Contender:
    """The contender."""
    return SessionContender(
        "jaato-gc gc_budget, anchored",
        "jaato-gc-budget",
        create_plugin,
        EstimateCounter(),
        "estimates tokens, within 5 %; in sessions, set right by reported usage",
    )
