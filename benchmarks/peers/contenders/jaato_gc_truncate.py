"""jaato-gc with gc_truncate, anchored: estimates, set right by reported usage."""

from contender import Contender

from contenders.jaato_gc_session import SessionContender
from jaato_gc import EstimateCounter
from jaato_gc_truncate import create_plugin


def make() -> Contender:
    """The contender."""
    return SessionContender(
        "jaato-gc gc_truncate, anchored",
        "jaato-gc-truncate",
        create_plugin,
        EstimateCounter(),
        "estimates tokens, within 5 %; in sessions, set right by reported usage",
    )
