"""Two pretend releases of core, the kit and one strategy, made with the real tools in a clone."""

from releasing.clone import Clone
from releasing.rehearsal import rehearse


def test_two_releases_of_core_and_a_strategy_are_compatible(clone: Clone) -> None:
    rehearse(clone)
