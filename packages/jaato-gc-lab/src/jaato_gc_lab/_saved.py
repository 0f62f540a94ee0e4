"""Saves a comparison as JSON and loads it again."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from jaato_gc import GCConfigError, GCError
from jaato_gc_lab._comparison import Comparison
from jaato_gc_lab._files import read_whole
from jaato_gc_lab._prices import Price
from jaato_gc_lab._ranking import rank

FORMAT = "jaato-gc comparison"
VERSION = 3


@dataclass(slots=True)
class SavedComparison:
    """A comparison with its prices, date and versions.

    Args:
        comparison: The comparison.
        prices: Prices that its costs are based on, by model.
        made_on: Date of the comparison.
        versions: Versions of the distributions, by name.
    """

    comparison: Comparison
    prices: Mapping[str, Price]
    made_on: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON data with summaries, rankings, and everything `load_comparison` needs."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "made_on": self.made_on,
            "versions": dict(self.versions),
            "prices": {
                model: price.model_dump(mode="json") for model, price in self.prices.items()
            },
            "summaries": [
                {
                    **dataclasses.asdict(summary),
                    "total_cost": summary.total_cost,
                    "blind_edit_share": summary.blind_edit_share,
                    "lost_context_share": summary.lost_context_share,
                    "lost_name_share": summary.lost_name_share,
                }
                for summary in self.comparison.summaries()
            ],
            "rankings": [
                {
                    "context_limit": ranking.context_limit,
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
            "cannot_fit": self.comparison.cannot_fit,
            "comparison": dataclasses.asdict(self.comparison),
        }


def load_comparison(path: str | Path) -> SavedComparison:
    """Loads a comparison from the output of ``jaato-gc compare --json``.

    Raises:
        GCError: The file is not a saved comparison, or another version saved it.
    """
    try:
        document = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise GCError(f"{path}: invalid JSON ({error}): {_REMEDY}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise GCError(f"{path}: not a saved comparison: {_REMEDY}")
    if document.get("version") != VERSION:
        raise GCError(
            f"{path}: saved by another version of jaato-gc-lab: run jaato-gc compare again"
        )
    try:
        comparison = TypeAdapter(Comparison).validate_python(document["comparison"])
        prices = {name: Price(**document["prices"][name]) for name in comparison.models}
        return SavedComparison(
            comparison,
            prices,
            str(document.get("made_on", "")),
            dict(document.get("versions", {})),
        )
    except (GCConfigError, KeyError, TypeError, ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise GCError(f"{path}: damaged comparison ({first}): {_REMEDY}") from None


_REMEDY = "pass a file created by 'jaato-gc compare … --json > FILE'"
