"""SWE-agent's trajectories (``.traj``)."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_among,
    fields_in,
    list_in,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SENT = ("role", "content", "tool_calls", "reasoning_content", "name")
STEP = ("action", "observation")


class SweAgent(LogFormat):
    """A run, from its history; or from the texts of its steps, if the file has no history."""

    name = "swe-agent"
    summary = "SWE-agent trajectory (.traj)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "trajectory" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, record in objects(records):
            name = text_in(record.get("instance_id")) or text_in(record.get("environment"))
            history = fields_among(record.get("history"))
            steps = fields_among(record.get("trajectory"))
            dialogue = _history(line, history) if history else _steps(line, steps)
            yield name, chain(answered_by(_model(record)), dialogue)


def _is_own(record: Fields) -> bool:
    steps = fields_among(record.get("trajectory"))
    return any(key in step for step in steps[:1] for key in STEP)


def _model(record: Fields) -> Any:
    """Returns the model in the configuration of a run, which newer versions store as JSON text."""
    config = record.get("replay_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return None
    agent = fields_in(fields_in(config).get("agent"))
    return fields_in(agent.get("model")).get("name")


def _history(line: int, history: list[Fields]) -> Dialogue:
    for message in history:
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            continue
        item = {name: message[name] for name in SENT if message.get(name) is not None}
        item.setdefault("content", None)
        if item["role"] == "tool":
            ids = list_in(message.get("tool_call_ids"))
            item["tool_call_id"] = message.get("tool_call_id") or (ids[0] if ids else None)
        yield Record(line, item)


def _steps(line: int, steps: list[Fields]) -> Dialogue:
    for step in steps:
        said = text_in(step.get("response")) or text_in(step.get("action"))
        if said:
            yield Record(line, {"role": "assistant", "content": said})
        if seen := text_in(step.get("observation")):
            yield Record(line, {"role": "user", "content": seen})
