"""What a run measured, and how figures are read: best, spread, growth."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Measurement:
    """What one contender did in one piece of work at one size.

    Args:
        work: What was done.
        contender: By whom: the name of its module.
        size: Messages or turns.
        seconds: One figure per round; none where it was not measured.
        details: What else the worker said: how much is left, how many collections.
        error: Why it failed, if it did.
        waited: Seconds that all of it took, preparations included.
    """

    work: str
    contender: str
    size: int
    seconds: list[float] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    waited: float = 0.0

    @property
    def best(self) -> float:
        """The fastest round."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """How much slower the slowest round was, as a share of the fastest."""
        return max(self.seconds) / self.best - 1


@dataclass(slots=True)
class Contestant:
    """What a worker said of its contender."""

    name: str
    environment: str
    versions: dict[str, str] = field(default_factory=dict)
    module: str = ""
    does_less: str = ""
    error: str | None = None


@dataclass(slots=True)
class Results:
    """A whole run.

    Args:
        about: Machine, date, command.
        contestants: Who took part, by the name of the module.
        measurements: Every figure in seconds.
        imports: Seconds that importing takes, by environment and module: one per round.
        memory: Bytes a message, by contender.
        conversions: Characters a second, by contender and conversion.
        own: What only this project is asked for: see ``own_figures.py``.
        segments: What ``mark_and_sweep.py`` wrote.
        notes: What could not be measured, and why.
    """

    about: dict[str, str] = field(default_factory=dict)
    contestants: dict[str, Contestant] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    imports: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    conversions: dict[str, dict[str, float]] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    segments: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def find(self, work: str, contender: str, size: int) -> Measurement | None:
        """One measurement, if it was made."""
        for each in self.measurements:
            if (each.work, each.contender, each.size) == (work, contender, size) and each.seconds:
                return each
        return None

    def of(self, work: str, contender: str) -> list[Measurement]:
        """All that one contender did in one piece of work, small before large."""
        found = [
            each
            for each in self.measurements
            if each.work == work and each.contender == contender and each.seconds
        ]
        return sorted(found, key=lambda each: each.size)

    def failure(self, work: str, contender: str) -> str | None:
        """Why a contender failed in some work, if it did."""
        for each in self.measurements:
            if each.work == work and each.contender == contender and each.error:
                return each.error
        return None

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read what `save` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        data["contestants"] = {k: Contestant(**v) for k, v in data["contestants"].items()}
        data["measurements"] = [Measurement(**each) for each in data["measurements"]]
        return cls(**data)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """How time grows with size: 1 is in proportion, 2 quadratic. The slope of logarithms."""
    if len(sizes) < 2:
        return None
    xs, ys = [math.log(size) for size in sizes], [math.log(each) for each in seconds]
    x_mean, y_mean = _mean(xs), _mean(ys)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - x_mean) ** 2 for x in xs)


def growth(measurements: Iterable[Measurement], smallest: int = 1_000) -> float | None:
    """The exponent over measurements; what is smaller than that is mostly fixed costs."""
    large = [each for each in measurements if each.size >= smallest]
    return exponent([each.size for each in large], [each.best for each in large])


def expected_seconds(measurements: Sequence[Measurement], size: int) -> float:
    """How long a larger size would take, by the growth so far (in proportion at least).

    What is small says nothing of growth: the shortest sessions have no collection at all.
    """
    last = measurements[-1]
    slope = max(1.0, growth(measurements[-2:]) or 1.0)
    return last.best * math.pow(size / last.size, slope)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
