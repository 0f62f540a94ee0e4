"""Confidence intervals of measures over runs."""

from collections.abc import Sequence
from math import sqrt
from random import Random
from typing import NamedTuple

MIN_RUNS = 6
"""Minimum number of runs for an interval. Samples of fewer runs are mostly the same runs again."""
RESAMPLES = 1_000
Z = 1.96
"""Standard deviations on each side of the mean that include 95 % of a normal distribution."""


class Interval(NamedTuple):
    """The 95 % confidence interval of a measure."""

    low: float
    high: float


class Bootstrap:
    """Intervals from random samples of the runs, the same samples for every measure.

    Args:
        runs: Number of runs.
    """

    def __init__(self, runs: int) -> None:
        random, positions = Random(0), range(runs)
        self._samples = (
            [random.choices(positions, k=runs) for _ in range(RESAMPLES)]
            if runs >= MIN_RUNS
            else []
        )

    def ratio(self, parts: Sequence[float], wholes: Sequence[float]) -> Interval | None:
        """Returns the interval of the sum of ``parts`` divided by the sum of ``wholes``.

        Args:
            parts: One value per run.
            wholes: One value per run.

        Returns:
            The interval, or ``None`` if fewer than `MIN_RUNS` runs have a whole.
        """
        if sum(whole > 0 for whole in wholes) < MIN_RUNS:
            return None
        ratios = sorted(
            sum(map(parts.__getitem__, sample)) / whole
            for sample in self._samples
            if (whole := sum(map(wholes.__getitem__, sample)))
        )
        outside = len(ratios) // 40
        return Interval(ratios[outside], ratios[-outside - 1])


def wilson(successes: int, runs: int) -> Interval | None:
    """Returns the Wilson score interval of a share of runs, or ``None`` for too few runs.

    It has a width even if the share is 0 or 1, where samples of the runs are all the same.
    """
    if runs < MIN_RUNS:
        return None
    share = successes / runs
    centre = share + Z**2 / (2 * runs)
    margin = Z * sqrt(share * (1 - share) / runs + Z**2 / (4 * runs**2))
    scale = 1 + Z**2 / runs
    return Interval(max(0.0, (centre - margin) / scale), min(1.0, (centre + margin) / scale))
