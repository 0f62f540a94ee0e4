"""Lossless conversion of results to JSON data and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from jaato_gc.collecting import (
    CacheImpact,
    GCOutcome,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    Shortfall,
)
from jaato_gc.policies import InstructionSource
from jaato_gc.tokens import Confidence


def result_to_dict(result: GCResult) -> dict[str, Any]:
    """Returns a result as JSON data; details that are not JSON become text."""
    return asdict(replace(result, details=_as_json(result.details)))


def _as_json(details: dict[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(details, default=repr, skipkeys=True)
    except Exception:  # cycles, absurd depth, a broken __repr__
        text = json.dumps({key: str(type(value)) for key, value in details.items()}, skipkeys=True)
    return dict(json.loads(text))


def result_from_dict(data: Mapping[str, Any]) -> GCResult:
    """Returns the result that `result_to_dict` described."""
    fields = dict(data)
    fields["details"] = dict(data["details"])
    fields["trigger_reason"] = GCTriggerReason(data["trigger_reason"])
    fields["confidence"] = Confidence(data["confidence"])
    fields["outcome"] = GCOutcome(data["outcome"])
    fields["cache"] = CacheImpact(**data["cache"]) if data["cache"] else None
    fields["shortfall"] = Shortfall(**data["shortfall"]) if data["shortfall"] else None
    fields["removal_list"] = [
        GCRemovalItem(
            **{
                **item,
                "source": InstructionSource(item["source"]),
                "message_ids": tuple(item["message_ids"]),
                "stash_keys": tuple(item["stash_keys"]),
            }
        )
        for item in data["removal_list"]
    ]
    return GCResult(**fields)
