"""A comparison as JSON, complete enough to make the report page from later."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from jaato_gc import GCConfigError, GCError
from jaato_gc_lab._compare import Comparison
from jaato_gc_lab._prices import Price
from jaato_gc_lab._ranking import rank

FORMAT = "jaato-gc comparison"
VERSION = 1


@dataclass(slots=True)
class SavedComparison:
    """A comparison, and what it was made with.

    Args:
        comparison: What was compared.
        price: The price that its money was reckoned with.
        made_on: The day.
        versions: Versions of distributions, by name.
    """

    comparison: Comparison
    price: Price
    made_on: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """It as JSON data: summaries and rankings for readers, all else to `load` it again."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "made_on": self.made_on,
            "versions": dict(self.versions),
            "price": self.price.model_dump(mode="json"),
            "summaries": [
                {
                    **dataclasses.asdict(summary),
                    "total_cost": summary.total_cost,
                    "regret": summary.regret,
                }
                for summary in self.comparison.summaries()
            ],
            "rankings": [
                {
                    "limit": ranking.limit,
                    "note": ranking.note,
                    "places": [
                        {
                            "position": place.position,
                            "strategy": place.strategy,
                            "reason": place.reason,
                            "below_noise": place.below_noise,
                        }
                        for place in ranking.places
                    ],
                }
                for ranking in rank(self.comparison)
            ],
            "comparison": dataclasses.asdict(self.comparison),
        }


def load_comparison(path: str | Path) -> SavedComparison:
    """A comparison from the file that ``jaato-gc compare --json`` was written to.

    Raises:
        GCError: It is none.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise GCError(f"{path} is no JSON ({error}): {_REMEDY}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise GCError(f"{path} is no saved comparison: {_REMEDY}")
    if document.get("version") != VERSION:
        raise GCError(
            f"{path} was saved by another version of jaato-gc-lab: compare again with this one"
        )
    try:
        return SavedComparison(
            TypeAdapter(Comparison).validate_python(document["comparison"]),
            Price(**document["price"]),
            str(document.get("made_on", "")),
            dict(document.get("versions", {})),
        )
    except (GCConfigError, KeyError, TypeError, ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise GCError(f"{path} is a damaged comparison ({first}): {_REMEDY}") from None


_REMEDY = "give a file made by 'jaato-gc compare … --json > FILE'"
