"""Simple chat logs: lines with a role, a text and a time, and lines for calls and results."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc.plugin import as_text
from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._calls_by_order import CallsByOrder
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields

SPEAKERS = ("user", "assistant", "system")
CALLS = ("tool_call", "function_call")
RESULTS = ("tool_result", "function_result")
TIMES = ("timestamp", "created_at", "ts")
CONFIDENCE = 0.7
"""Maximum confidence. It exceeds that of the API formats in such lines, which have no time."""


class RoleLines(LogFormat):
    """A simple chat log. Its calls have no ids, so results are matched to calls by order."""

    name = "role-lines"
    summary = "Lines of role, content and time (JSONL)"

    def recognize(self, records: Sequence[Any]) -> float:
        found = resemblance(records, own=_is_own, like=_is_like)
        return min(found, CONFIDENCE)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        yield "", _dialogue(records)


def _is_own(record: Fields) -> bool:
    if not _is_like(record):
        return False
    return _text(record) is not None or record.get("type") in CALLS + RESULTS


def _is_like(record: Fields) -> bool:
    return any(key in record for key in TIMES) and ("role" in record or "type" in record)


def _text(record: Fields) -> str | None:
    if record.get("role") not in SPEAKERS:
        return None
    said = (record.get(key) for key in ("content", "message", "text"))
    return next((text for text in said if isinstance(text, str)), None)


def _dialogue(records: Iterable[Record]) -> Dialogue:
    calls = CallsByOrder()
    model = ""  # a line names the model of the answers that follow
    for line, record in objects(records):
        model = text_in(record.get("model")) or model
        text = _text(record)
        time = next((record[name] for name in TIMES if name in record), None)
        if text is not None:
            yield from calls.flush()
            if record["role"] == "assistant":
                yield from moment_of(time)
                yield from answered_by(model)
            yield Record(line, {"role": record["role"], "content": text})
        elif record.get("type") in CALLS:
            function = fields_in(record.get("function"))
            name = text_in(record.get("name")) or text_in(function.get("name"))
            given = record.get("arguments") or function.get("arguments") or {}
            yield from calls.call(line, name, given, time=time, model=model)
        elif record.get("type") in RESULTS:
            result = record.get("result", record.get("output"))
            yield from calls.result(line, text_in(record.get("name")), as_text(result))
