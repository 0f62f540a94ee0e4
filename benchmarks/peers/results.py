"""The figures of a run: best of several rounds, and growth with size."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Measurement:
    """One contender in one piece of work at one size.

    Args:
        work: The name of the work.
        contender: The name of the contender's module.
        size: Messages or turns.
        seconds: CPU time, one figure per round.
        collections: How many there were.
        error: Why it failed, if it did.
        waited: Seconds that all rounds took, preparations included.
    """

    work: str
    contender: str
    size: int
    seconds: list[float] = field(default_factory=list)
    collections: int = 0
    error: str | None = None
    waited: float = 0.0

    @property
    def best(self) -> float:
        """The fastest round."""
        return min(self.seconds)


@dataclass(slots=True)
class Contestant:
    """What a worker says about its contender; see `Contender`."""

    name: str
    environment: str
    versions: dict[str, str] = field(default_factory=dict)
    statement: str = ""
    counts: str = ""
    names_removed: bool = False
    remark: str = ""
    error: str | None = None


@dataclass(slots=True)
class Results:
    """A whole run.

    Args:
        about: Machine and date.
        contestants: The contenders, by the name of the module.
        measurements: Every figure in seconds.
        imports: Seconds of each import statement, one per round.
        memory: Bytes per message, by contender: ``bytes`` in all, ``beyond`` the messages alone.
        own: The output of ``own_costs.py``.
        notes: What could not be measured, and why.
    """

    about: dict[str, str] = field(default_factory=dict)
    contestants: dict[str, Contestant] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    imports: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def find(self, work: str, contender: str, size: int) -> Measurement | None:
        """Returns a measurement, or ``None`` if it was not made or failed."""
        for each in self.measurements:
            if (each.work, each.contender, each.size) == (work, contender, size) and each.seconds:
                return each
        return None

    def error(self, contender: str) -> str | None:
        """Returns the first error of a contender."""
        errors = [
            f"{each.work}, {each.size:,}: {each.error}"
            for each in self.measurements
            if each.contender == contender and each.error
        ]
        return self.contestants[contender].error or next(iter(errors), None)

    def save(self, path: Path) -> None:
        """Writes everything as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Reads a file that `save` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        data["contestants"] = {k: Contestant(**v) for k, v in data["contestants"].items()}
        data["measurements"] = [Measurement(**each) for each in data["measurements"]]
        return cls(**data)


def growth(points: Sequence[tuple[float, float]]) -> float | None:
    """Returns the exponent by which time grows with size, from pairs of size and time.

    1 is proportional, 2 quadratic. It is the slope of the logarithms.
    """
    if len(points) < 2:
        return None
    xs, ys = ([math.log(each) for each in axis] for axis in zip(*points, strict=True))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - x_mean) ** 2 for x in xs)
