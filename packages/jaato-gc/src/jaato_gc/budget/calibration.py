"""Calibration: the correction that turns counted tokens into those that a provider reports.

It has two parts, because there are two causes. A counter is wrong by a ratio; what the host sends
and did not book, such as the system prompt and the tools, is missing by a constant. A constant
alone would stay whole when a collection takes half of what it corrected. A ratio alone would shrink
with the history what is not in it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

LEAST_RATIO, GREATEST_RATIO = 0.5, 1.5
"""What a counter can be wrong by."""
KEPT_REPORTS = 8
LEAST_DIFFERENCE = 1_000
"""Requests that differ by fewer tokens tell the two parts apart no better than by chance."""
LEAST_DIFFERENCE_SHARE = 0.1
"""The same, as a share of the larger request."""
_STEPS = 1024
"""Ratios are multiples of 1/1024, so that products with token figures are exact."""


class Report(NamedTuple):
    """The size of a request: as counted, and as the provider reported it."""

    counted: int
    reported: int


def with_report(reports: Sequence[Report], new: Report) -> list[Report]:
    """Returns reports to learn from: the new one, and earlier ones of other sizes.

    A report replaces those of about the same size. It also replaces those that no ratio explains
    together with it: since then, something else has changed, such as the model or its tools.
    """
    earlier = [report for report in reports if _tells_apart(report, new)]
    return [*earlier[1 - KEPT_REPORTS :], new]


def _tells_apart(old: Report, new: Report) -> bool:
    counted, reported = new.counted - old.counted, new.reported - old.reported
    least = max(LEAST_DIFFERENCE, LEAST_DIFFERENCE_SHARE * max(new.counted, old.counted))
    return abs(counted) >= least and LEAST_RATIO <= reported / counted <= GREATEST_RATIO


def correction_of(reports: Sequence[Report]) -> tuple[float, int]:
    """Returns the ratio, and the tokens that were not booked. The newest report is met exactly.

    The ratio is the slope of the line through the newest report that is closest to the others. As
    long as there is only one size, what exceeds the count was not booked, and a report below the
    count can only be a matter of the ratio.
    """
    *others, newest = reports
    differences = [
        (newest.counted - other.counted, newest.reported - other.reported) for other in others
    ]
    square = sum(counted * counted for counted, _ in differences)
    slope = sum(counted * reported for counted, reported in differences) / square if square else 1.0
    highest = min(GREATEST_RATIO, newest.reported / max(1, newest.counted))
    ratio = math.floor(max(LEAST_RATIO, min(slope, highest)) * _STEPS) / _STEPS
    return ratio, newest.reported - int(ratio * newest.counted)
