"""Antigravity's transcripts: numbered steps, including the results of tools."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._calls_by_order import CallsByOrder
from jaato_gc_formats._logs._common import (
    fields_among,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields


class Antigravity(LogFormat):
    """A transcript. Its steps have no call ids, so results are matched to calls by order."""

    name = "antigravity"
    summary = "Antigravity transcript (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_own, like=lambda record: "step_index" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        yield "", _dialogue(records)


def _is_own(record: Fields) -> bool:
    return {"step_index", "source", "type"} <= record.keys()


def _dialogue(records: Iterable[Record]) -> Dialogue:
    calls = CallsByOrder()
    for line, step in objects(records):
        kind, text = text_in(step.get("type")), text_in(step.get("content"))
        if kind == "USER_INPUT":
            yield from calls.flush()
            yield Record(line, {"role": "user", "content": text})
        elif kind == "PLANNER_RESPONSE":
            yield from _answer(line, step, calls)
        elif step.get("source") == "MODEL" and "content" in step:
            yield from calls.result(line, kind.lower(), text)
    yield from calls.flush()


def _answer(line: int, step: Fields, calls: CallsByOrder) -> Dialogue:
    message: Fields = {"content": text_in(step.get("content")) or None}
    if thought := text_in(step.get("thinking")):
        message["reasoning_content"] = thought
    made = fields_among(step.get("tool_calls"))
    if not made and message["content"]:
        yield from calls.flush()
        yield from moment_of(step.get("created_at"))
        yield Record(line, {"role": "assistant", **message})
    for position, call in enumerate(made):
        given = {name: _value(value) for name, value in fields_in(call.get("args")).items()}
        start = message if position == 0 else None
        name, time = text_in(call.get("name")), step.get("created_at")
        yield from calls.call(line, name, given, message=start, time=time)


def _value(value: Any) -> Any:
    """Returns the value of an argument, which the log stores as JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value
